package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// content is what the fake hub serves; no two stretches of it are equal.
func content() []byte {
	var b bytes.Buffer
	for i := range 40_000 {
		fmt.Fprintf(&b, "%08d", i)
	}
	return b.Bytes()
}

func sumOf(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// fakeHub serves one repository as a hub does: a listing, a redirect with the checksum, and a store on another host.
type fakeHub struct {
	t     *testing.T
	data  []byte
	sum   string // as the hub claims
	files []string

	mu           sync.Mutex
	cutAfter     []int // bytes after which each of the first answers of the store is cut
	ignoreRanges bool
	statuses     []int // answers of the first requests for the file
	ranges       []string
	leaked       bool // the token reached the store
	tokens       []string

	hub, store *httptest.Server
}

func newFakeHub(t *testing.T, files ...string) *fakeHub {
	f := &fakeHub{t: t, data: content(), files: files}
	f.sum = sumOf(f.data)
	f.hub = httptest.NewServer(http.HandlerFunc(f.serveHub))
	f.store = httptest.NewServer(http.HandlerFunc(f.serveStore))
	t.Cleanup(f.hub.Close)
	t.Cleanup(f.store.Close)
	return f
}

func (f *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens = append(f.tokens, r.Header.Get("Authorization"))
	switch {
	case r.URL.Path == "/api/models/owner/repo":
		var names []string
		for _, n := range f.files {
			names = append(names, fmt.Sprintf(`{"rfilename":%q}`, n))
		}
		fmt.Fprintf(w, `{"siblings":[%s]}`, strings.Join(names, ","))
	case strings.HasPrefix(r.URL.Path, "/owner/repo/resolve/main/"):
		if len(f.statuses) > 0 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(f.statuses[0])
			f.statuses = f.statuses[1:]
			return
		}
		w.Header().Set("X-Linked-Etag", strconv.Quote(f.sum))
		http.Redirect(w, r, f.store.URL+"/blob", http.StatusFound)
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeHub) serveStore(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.leaked = f.leaked || r.Header.Get("Authorization") != ""
	f.ranges = append(f.ranges, r.Header.Get("Range"))
	cut := -1
	if len(f.cutAfter) > 0 {
		cut, f.cutAfter = f.cutAfter[0], f.cutAfter[1:]
	}
	ignore := f.ignoreRanges
	f.mu.Unlock()
	w.Header().Set("Etag", `"version-1"`)
	if ignore {
		r.Header.Del("Range")
	}
	if cut >= 0 {
		w = &cutWriter{w, cut}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}

// cutWriter drops the connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// puller returns a Puller whose waits take no time; waits lists them.
func (f *fakeHub) puller(dir string) (*Puller, *[]time.Duration) {
	f.t.Helper()
	waits := new([]time.Duration)
	p, err := New(Config{Dir: dir, Endpoint: f.hub.URL, Token: "secret-token", Wait: func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	return p, waits
}

func checkFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v; want %d bytes as served", path, len(got), err, len(want))
	}
}

// checkClean fails when a directory holds anything but the named files.
func checkClean(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("directory holds %q, want %q", names, want)
	}
}

func TestPullFromHub(t *testing.T) {
	f := newFakeHub(t, "README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf")
	dir := filepath.Join(t.TempDir(), "models")
	p, _ := f.puller(dir)
	got, err := p.Pull(t.Context(), "owner/repo")
	if err != nil {
		t.Fatal(err)
	}
	want := Result{Path: filepath.Join(dir, "m-Q4_K_M.gguf"), Files: 1, Bytes: int64(len(f.data)), Verified: true}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	checkFile(t, got.Path, f.data)
	checkClean(t, dir, "m-Q4_K_M.gguf")
	if f.leaked {
		t.Error("the token followed the redirect to another host")
	}
	if f.tokens[0] != "Bearer secret-token" {
		t.Errorf("the hub got %q as authorization", f.tokens[0])
	}
	if again, err := p.Pull(t.Context(), "owner/repo"); err != nil || !again.Present || again.Bytes != want.Bytes {
		t.Errorf("second pull: %+v, %v; want it to find the file there", again, err)
	}
	checkClean(t, dir, "m-Q4_K_M.gguf")
}

func TestPullResumesAfterCuts(t *testing.T) {
	f := newFakeHub(t, "m.gguf")
	f.cutAfter = []int{100_000, 50_000, 0}
	dir := t.TempDir()
	p, waits := f.puller(dir)
	got, err := p.Pull(t.Context(), "owner/repo")
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, got.Path, f.data)
	if len(*waits) != 3 || len(f.ranges) != 4 || f.ranges[0] != "" || f.ranges[1] == "" {
		t.Errorf("waited %v, asked for ranges %q; want each cut to be resumed", *waits, f.ranges)
	}
	if !got.Verified {
		t.Error("not verified")
	}
}

func TestPullResumesAnEarlierPull(t *testing.T) {
	f := newFakeHub(t, "m.gguf")
	f.cutAfter = []int{100_000}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	p, _ := f.puller(dir)
	p.config.Wait = func(context.Context, time.Duration) error { cancel(); return context.Canceled }
	if _, err := p.Pull(ctx, "owner/repo"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the cancellation", err)
	}
	checkClean(t, dir, "m.gguf.part", "m.gguf.part.json")
	var from int64
	p2, _ := f.puller(dir)
	p2.config.Progress = func(pr Progress) { from = pr.FromBytes }
	got, err := p2.Pull(t.Context(), "owner/repo")
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, got.Path, f.data)
	checkClean(t, dir, "m.gguf")
	if from == 0 || from > 100_000 {
		t.Errorf("resumed from byte %d, want what had arrived", from)
	}
}

func TestPullFromServerWithoutRanges(t *testing.T) {
	f := newFakeHub(t, "m.gguf")
	f.cutAfter, f.ignoreRanges = []int{100_000}, true
	p, _ := f.puller(t.TempDir())
	got, err := p.Pull(t.Context(), "owner/repo")
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, got.Path, f.data)
}

func TestPullRefusesWrongContent(t *testing.T) {
	f := newFakeHub(t, "m.gguf")
	f.sum = sumOf([]byte("something else"))
	dir := t.TempDir()
	p, _ := f.puller(dir)
	if _, err := p.Pull(t.Context(), "owner/repo"); !errors.Is(err, ErrChecksum) {
		t.Errorf("got %v, want a checksum mismatch", err)
	}
	checkClean(t, dir)
}

func TestPullByURLWithChecksum(t *testing.T) {
	f := newFakeHub(t)
	dir := t.TempDir()
	p, _ := f.puller(dir)
	url := f.store.URL + "/blob/m.gguf"
	if got, err := p.Pull(t.Context(), url+"#sha256="+f.sum); err != nil || !got.Verified {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := p.Pull(t.Context(), url+"#sha256="+sumOf(nil)); !errors.Is(err, ErrChecksum) {
		t.Errorf("got %v, want a checksum mismatch", err)
	}
	if _, err := p.Pull(t.Context(), url+"#md5=12"); !errors.Is(err, ErrName) {
		t.Errorf("got %v, want the fragment to be refused", err)
	}
	checkFile(t, filepath.Join(dir, "m.gguf"), f.data)
}

func TestPullAnswersToStatuses(t *testing.T) {
	tests := []struct {
		status int
		times  int
		want   error // nil: succeeds in the end
		says   string
	}{
		{http.StatusUnauthorized, 1, ErrDenied, "HF_TOKEN"},
		{http.StatusForbidden, 1, ErrDenied, "HF_TOKEN"},
		{http.StatusNotFound, 1, ErrNotFound, "spelling"},
		{http.StatusTooManyRequests, 2, nil, ""},
		{http.StatusBadGateway, 2, nil, ""},
		{http.StatusServiceUnavailable, maxAttempts, ErrServer, "given up"},
	}
	for _, tt := range tests {
		t.Run(strconv.Itoa(tt.status), func(t *testing.T) {
			f := newFakeHub(t, "m.gguf")
			for range tt.times {
				f.statuses = append(f.statuses, tt.status)
			}
			p, waits := f.puller(t.TempDir())
			_, err := p.Pull(t.Context(), "owner/repo")
			if tt.want == nil {
				if err != nil || len(*waits) != tt.times || (*waits)[0] != 7*time.Second {
					t.Errorf("got %v after waits %v, want success after waiting as the server asks", err, *waits)
				}
				return
			}
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v that says %q", err, tt.want, tt.says)
			}
			if strings.Contains(err.Error(), "secret-token") {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

// TestRetriesAreTold: a server that can't be reached is asked again, and the user hears why it takes so long; a name that nobody has is not.
func TestRetriesAreTold(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		retries int
		says    string
	}{
		{"refused", errors.New("connection refused"), maxAttempts - 1, "given up"},
		{"lookup failed", &net.DNSError{Err: "timeout", IsTimeout: true}, maxAttempts - 1, "given up"},
		{"no such host", &net.DNSError{Err: "no such host", IsNotFound: true}, 0, "HF_ENDPOINT"},
	} {
		var told []string
		p, err := New(Config{
			Dir: t.TempDir(), Transport: failing{tt.err}, Wait: func(context.Context, time.Duration) error { return nil },
			Retry: func(err error, _ time.Duration) { told = append(told, err.Error()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Pull(t.Context(), "owner/repo"); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), tt.says) || len(told) != tt.retries {
			t.Errorf("%s: %v after being told %q; want %d retries", tt.name, err, told, tt.retries)
		}
	}
}

// failing is a network that fails.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestPullPath(t *testing.T) {
	src := filepath.Join(t.TempDir(), "mine.gguf")
	if err := os.WriteFile(src, content(), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Pull(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, got.Path, content())
	checkClean(t, dir, "mine.gguf")
	if again, err := p.Pull(t.Context(), got.Path); err != nil || !again.Present {
		t.Errorf("pulling a file onto itself: %+v, %v", again, err)
	}
}

// TestPullShards: whichever shard a path or URL names, the whole set comes; one that lacks a shard is refused by that shard's name.
func TestPullShards(t *testing.T) {
	src := t.TempDir()
	names := []string{"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(src, name), content()[i:], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(src)))
	defer server.Close()
	for _, from := range []string{filepath.Join(src, names[0]), filepath.Join(src, names[1]), server.URL + "/" + names[2]} {
		dir := t.TempDir()
		p, err := New(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Pull(t.Context(), from)
		if err != nil || got.Files != len(names) || got.Path != filepath.Join(dir, names[0]) {
			t.Fatalf("%s: %+v, %v", from, got, err)
		}
		for i, name := range names {
			checkFile(t, filepath.Join(dir, name), content()[i:])
		}
		checkClean(t, dir, names...)
	}
	if err := os.Remove(filepath.Join(src, names[1])); err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Pull(t.Context(), filepath.Join(src, names[0])); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), names[1]) {
		t.Errorf("without the second shard: %v", err)
	}
}

func TestHostileNames(t *testing.T) {
	for _, name := range []string{"", "model", "a/b/c", "../x", "owner/..", "owner/repo/../../x", "ftp://host/x.gguf", "https://host/x.bin",
		"https://host/.gguf", "https://host/a%5Cb.gguf", "https://host/"} {
		p, err := New(Config{Dir: t.TempDir(), Endpoint: "http://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		p.config.Wait = func(context.Context, time.Duration) error { return errors.New("it was asked for") }
		got, err := p.Pull(t.Context(), name)
		if err == nil {
			t.Errorf("%q was accepted as %+v", name, got)
		} else if !errors.Is(err, ErrName) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: %v, want it refused for its name", name, err)
		}
	}
	f := newFakeHub(t, "sub/../../evil.gguf", "a\\b.gguf")
	dir := t.TempDir()
	p, _ := f.puller(dir)
	if _, err := p.Pull(t.Context(), "owner/repo:a\\b.gguf"); !errors.Is(err, ErrName) {
		t.Errorf("got %v, want the listing's name refused", err)
	}
	checkClean(t, dir)
}

func TestChoose(t *testing.T) {
	files := []string{"m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "m-f16-00001-of-00003.gguf"}
	tests := []struct {
		want string
		get  int
		err  error
	}{
		{"", 1, nil}, {"q4_k_s", 1, nil}, {"Q8_0", 2, nil}, {"m-Q8_0-00001-of-00002.gguf", 2, nil}, {"Q4_K", 0, ErrName}, {"f16", 0, ErrName}, {"x.gguf", 0, ErrName},
	}
	for _, tt := range tests {
		if got, err := choose(files, tt.want); len(got) != tt.get || !errors.Is(err, tt.err) {
			t.Errorf("%q: got %q, %v", tt.want, got, err)
		}
	}
	if _, err := choose(nil, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v for a repository without models", err)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, c := range []Config{{}, {Dir: "d", Endpoint: "hub"}, {Dir: "d", Endpoint: "ftp://hub"}} {
		if err := c.Validate(); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, seed := range []string{"m.gguf", "../m.gguf", "a\\b.gguf", ".gguf", "c:x.gguf", "\x00.gguf"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := fileName(name)
		if err != nil {
			return
		}
		if got != name || filepath.Dir(filepath.Join("d", got)) != "d" || filepath.Base(got) != got {
			t.Errorf("%q was accepted and leads to %q", name, filepath.Join("d", got))
		}
	})
}
