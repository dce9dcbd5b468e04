package hub

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// remote is one file to bring: from a URL or, when local is set, from a path.
type remote struct {
	url    string
	local  string
	name   string // in the models' directory
	sha256 string // lower-case hex, empty when not known beforehand
}

// preferredQuant is taken from a repository that holds several models when the name says none.
const preferredQuant = "Q4_K_M"

var (
	repoPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)
	shardPattern = regexp.MustCompile(`^(.*)-[0-9]{5}-of-([0-9]{5})\.gguf$`)
)

// resolve says which files a name stands for, shards in order.
func (p *Puller) resolve(ctx context.Context, name string) ([]remote, error) {
	switch {
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		return fromURL(name)
	case isPath(name):
		file, err := fileName(filepath.Base(name))
		if err != nil {
			return nil, err
		}
		var files []remote
		for _, shard := range shardSet(file) {
			files = append(files, remote{local: filepath.Join(filepath.Dir(name), shard), name: shard})
		}
		return files, nil
	}
	repo, want, _ := strings.Cut(name, ":")
	if !repoPattern.MatchString(repo) || strings.Contains(repo, "..") {
		return nil, fmt.Errorf("%w: write owner/repo, owner/repo:QUANT, a URL or a path such as ./model.gguf", ErrName)
	}
	listed, err := p.list(ctx, repo)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(listed, want)
	if err != nil {
		return nil, err
	}
	var files []remote
	for _, f := range chosen {
		file, err := fileName(path.Base(f))
		if err != nil {
			return nil, err
		}
		u, err := url.JoinPath(p.config.Endpoint, repo, "resolve", "main", f)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrName, f, err)
		}
		files = append(files, remote{url: u, name: file})
	}
	return files, nil
}

func isPath(name string) bool {
	if filepath.IsAbs(name) || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		return true
	}
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// fromURL takes the checksum off a URL and names the file after the last part of its path. A shard's URL stands for all shards; a checksum is that file's alone.
func fromURL(name string) ([]remote, error) {
	u, err := url.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrName, err)
	}
	sum := ""
	if u.Fragment != "" {
		value, found := strings.CutPrefix(u.Fragment, "sha256=")
		if sum = strings.ToLower(value); !found || !isSHA256(sum) {
			return nil, fmt.Errorf("%w: after # goes sha256= and 64 hex digits, not %q", ErrName, u.Fragment)
		}
		u.Fragment = ""
	}
	file, err := fileName(path.Base(u.Path))
	if err != nil {
		return nil, err
	}
	var files []remote
	for _, shard := range shardSet(file) {
		if shard == file {
			files = append(files, remote{url: u.String(), name: file, sha256: sum})
			continue
		}
		beside := *u
		beside.RawPath, beside.Path = "", path.Join(path.Dir(u.Path), shard)
		files = append(files, remote{url: beside.String(), name: shard})
	}
	return files, nil
}

// maxShards bounds what a file's name may claim.
const maxShards = 4096

// shardSet lists the files of the set that a shard belongs to, in order; a file that is no shard is a set of its own.
func shardSet(file string) []string {
	m := shardPattern.FindStringSubmatch(file)
	if m == nil {
		return []string{file}
	}
	n, err := strconv.Atoi(m[2])
	if err != nil || n < 1 || n > maxShards {
		return []string{file}
	}
	set := make([]string, n)
	for i := range set {
		set[i] = fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, n)
	}
	if !slices.Contains(set, file) {
		return []string{file}
	}
	return set
}

func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32
}

// fileName checks a name that came from outside before it becomes a file's name here.
func fileName(name string) (string, error) {
	switch {
	case !strings.HasSuffix(name, ".gguf"):
		return "", fmt.Errorf("%w: %q is no .gguf file", ErrName, name)
	case strings.ContainsAny(name, "/\\:\x00") || strings.HasPrefix(name, ".") || len(name) > maxFileNameLength:
		return "", fmt.Errorf("%w: %q can't be a file's name", ErrName, name)
	}
	return name, nil
}

// list returns the model files of a repository.
func (p *Puller) list(ctx context.Context, repo string) ([]string, error) {
	u, err := url.JoinPath(p.config.Endpoint, "api", "models", repo)
	if err != nil {
		return nil, err
	}
	var listing struct {
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	err = p.attempts(ctx, func() error {
		resp, err := p.get(ctx, u, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return statusError(resp)
		}
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxListingBytes)).Decode(&listing); err != nil {
			return fmt.Errorf("%w: its list of files can't be read: %w", ErrServer, err)
		}
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, s := range listing.Siblings {
		if strings.HasSuffix(s.Name, ".gguf") {
			files = append(files, s.Name)
		}
	}
	slices.Sort(files)
	return files, nil
}

// choose picks the file that is wanted out of a repository's, or all shards of it. want is a file's name, a quantisation or empty.
func choose(files []string, want string) ([]string, error) {
	sets := shardSets(files)
	if len(sets) == 0 {
		return nil, fmt.Errorf("%w: the repository holds no .gguf file; look for one that does, often named ...-GGUF", ErrNotFound)
	}
	var matching [][]string
	for _, set := range sets {
		if want == "" || slices.Contains(set, want) || path.Base(set[0]) == want || hasQuant(set[0], want) {
			matching = append(matching, set)
		}
	}
	if len(matching) > 1 && want == "" {
		matching = slices.DeleteFunc(matching, func(set []string) bool { return !hasQuant(set[0], preferredQuant) })
	}
	if len(matching) == 1 {
		return matching[0], nil
	}
	var names []string
	for _, set := range sets {
		names = append(names, set[0])
	}
	return nil, fmt.Errorf("%w: say which file after a colon: %s", ErrName, strings.Join(names, ", "))
}

// shardSets groups the shards of one model. Sets that lack a shard are left out.
func shardSets(files []string) [][]string {
	var sets [][]string
	groups := make(map[string]int)
	for _, f := range files {
		m := shardPattern.FindStringSubmatch(f)
		if m == nil {
			sets = append(sets, []string{f})
			continue
		}
		key := m[1] + "-of-" + m[2]
		i, known := groups[key]
		if !known {
			i = len(sets)
			groups[key] = i
			sets = append(sets, nil)
		}
		sets[i] = append(sets[i], f)
	}
	return slices.DeleteFunc(sets, func(set []string) bool {
		m := shardPattern.FindStringSubmatch(set[0])
		return m != nil && fmt.Sprintf("%05d", len(set)) != m[2]
	})
}

// hasQuant says whether a file's name holds a quantisation as a word of its own: "Q4_K" is no part of "Q4_K_M".
func hasQuant(file, quant string) bool {
	name := strings.ToUpper(strings.TrimSuffix(path.Base(file), ".gguf"))
	if m := shardPattern.FindStringSubmatch(path.Base(file)); m != nil {
		name = strings.ToUpper(m[1])
	}
	quant = strings.ToUpper(quant)
	return strings.HasSuffix(name, "-"+quant) || strings.HasSuffix(name, "."+quant) || strings.HasSuffix(name, "_"+quant) || name == quant
}
