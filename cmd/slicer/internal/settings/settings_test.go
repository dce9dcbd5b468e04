package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upFlags are flags as a command might have them.
func upFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	flags.String("http", "default", "")
	flags.String("data", "", "")
	flags.Int("max-tokens", 5, "")
	flags.StringArray("tenant", nil, "")
	if err := SetEnvName(flags, "data", "SLICER_DATA_DIR"); err != nil {
		t.Fatal(err)
	}
	return flags
}

func apply(t *testing.T, flags *pflag.FlagSet, yaml string, env map[string]string, args ...string) error {
	t.Helper()
	path := ""
	if yaml != "" {
		path = filepath.Join(t.TempDir(), "slicer.yaml")
		if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		return err
	}
	known := func(name string) bool { return flags.Lookup(name) != nil || name == "server" }
	command := func(name string) bool { return name == "up" || name == "demo" }
	return f.Apply("up", flags, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, known, command)
}

func TestPrecedence(t *testing.T) {
	yaml := "http: from-file\nserver: elsewhere\nup:\n  max-tokens: 7\n  data: file-data\ndemo:\n  http: not-ours\n"
	flags := upFlags(t)
	env := map[string]string{"SLICER_DATA_DIR": "env-data", "SLICER_DATA": "not-ours", "SLICER_HTTP": ""}
	if err := apply(t, flags, yaml, env); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"http": "from-file", "max-tokens": "7", "data": "env-data"} {
		if got := flags.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	flags = upFlags(t)
	if err := apply(t, flags, yaml, map[string]string{"SLICER_HTTP": "from-env"}, "--http", "from-flag"); err != nil {
		t.Fatal(err)
	}
	if got := flags.Lookup("http").Value.String(); got != "from-flag" {
		t.Errorf("the flag's value became %q", got)
	}
}

func TestLists(t *testing.T) {
	for name, setup := range map[string]func(*pflag.FlagSet) error{
		"file":        func(f *pflag.FlagSet) error { return apply(t, f, "up:\n  tenant: [a=x, b=y]\n", nil) },
		"environment": func(f *pflag.FlagSet) error { return apply(t, f, "", map[string]string{"SLICER_TENANT": "a=x,b=y"}) },
	} {
		flags := upFlags(t)
		if err := setup(flags); err != nil {
			t.Fatal(err)
		}
		if got, _ := flags.GetStringArray("tenant"); !slices.Equal(got, []string{"a=x", "b=y"}) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestErrorsNameTheSource(t *testing.T) {
	for _, tt := range []struct {
		yaml string
		env  map[string]string
		says string
	}{
		{"htpp: x", nil, `"htpp"`},
		{"up:\n  htpp: x", nil, `"htpp"`},
		{"upp:\n  http: x", nil, `"upp"`},
		{"up:\n  max-tokens: many", nil, "slicer.yaml"},
		{": [", nil, "slicer.yaml"},
		{"", map[string]string{"SLICER_MAX_TOKENS": "many"}, "SLICER_MAX_TOKENS"},
	} {
		err := apply(t, upFlags(t), tt.yaml, tt.env)
		if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q %v: got %v, want it to name %q", tt.yaml, tt.env, err, tt.says)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, ErrSettings) {
		t.Errorf("a file that isn't there: %v", err)
	}
}
