// Package settings gives flags their values from where they were not given: the environment, then a YAML file, then the flag's own default. What stands on
// the command line always wins.
package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

// envPrefix stands before a flag's name in the environment.
const envPrefix = "SLICER_"

// envAnnotation overrides a flag's name in the environment.
const envAnnotation = "slicer_env"

// ErrSettings is a setting that can't be read.
var ErrSettings = errors.New("invalid setting")

// EnvName returns the environment variable that a flag is read from: SLICER_MAX_TOKENS for max-tokens.
func EnvName(f *pflag.Flag) string {
	if names := f.Annotations[envAnnotation]; len(names) > 0 {
		return names[0]
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// SetEnvName makes a flag read another variable, for names that mean something else already.
func SetEnvName(flags *pflag.FlagSet, flag, name string) error {
	return flags.SetAnnotation(flag, envAnnotation, []string{name})
}

// File is a YAML file of settings: flags by name, and under a command's name what holds for that command alone.
//
//	server: http://10.0.0.5:7070
//	up:
//	  devices: cpu:1;cpu:1
//	  tenant: [alice=tiny-story, bob=tiny-guide]
type File struct {
	path   string
	values map[string]any
}

// Read reads a file; an empty path gives a file without settings.
func Read(path string) (*File, error) {
	if path == "" {
		return &File{}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	f := &File{path: path}
	if err := yaml.Unmarshal(data, &f.values); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSettings, path, err)
	}
	return f, nil
}

// Apply sets every flag that was not given on the command line. command is the command's path without the program's name ("tenant submit"). isFlag and
// isCommand say whether a name means something to the program at all, so that a misspelt setting is an error and one for another command is not.
func (f *File) Apply(command string, flags *pflag.FlagSet, getenv func(string) (string, bool), isFlag, isCommand func(string) bool) error {
	own, err := f.sections(command, isFlag, isCommand)
	if err != nil {
		return err
	}
	var errs []error
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || flag.Name == "help" {
			return
		}
		if value, found := getenv(EnvName(flag)); found && value != "" {
			errs = append(errs, set(flags, flag.Name, EnvName(flag), splitList(flag, value)))
			return
		}
		if value, found := own[flag.Name]; found {
			errs = append(errs, set(flags, flag.Name, f.path, texts(value)))
		}
	})
	return errors.Join(errs...)
}

// sections merges the top level with the command's section and checks all names.
func (f *File) sections(command string, isFlag, isCommand func(string) bool) (map[string]any, error) {
	own := make(map[string]any)
	for name, value := range f.values {
		section, isSection := value.(map[string]any)
		switch {
		case isSection && !isCommand(name), !isSection && !isFlag(name):
			return nil, fmt.Errorf("%w: %s: %q is neither a flag nor a command", ErrSettings, f.path, name)
		case !isSection:
			if _, set := own[name]; !set {
				own[name] = value
			}
			continue
		}
		for flag, v := range section {
			if !isFlag(flag) {
				return nil, fmt.Errorf("%w: %s: %q is no flag of %q", ErrSettings, f.path, flag, name)
			}
			if name == command {
				own[flag] = v
			}
		}
	}
	return own, nil
}

// splitList cuts what a variable gives to a flag that may be repeated.
func splitList(flag *pflag.Flag, value string) []string {
	if flag.Value.Type() == "stringArray" {
		return strings.Split(value, ",")
	}
	return []string{value}
}

func texts(value any) []string {
	list, isList := value.([]any)
	if !isList {
		return []string{fmt.Sprint(value)}
	}
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func set(flags *pflag.FlagSet, name, from string, values []string) error {
	for _, v := range values {
		if err := flags.Set(name, v); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrSettings, from, err)
		}
	}
	return nil
}
