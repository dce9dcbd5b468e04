// Package hub brings model files to this machine: from a Hugging Face hub, from a URL, or from elsewhere on disk. Downloads resume, are checked and appear under
// their name only when complete.
package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Errors of pulls. They are wrapped with the name at fault and the remedy.
var (
	ErrName     = errors.New("not a model's name")
	ErrNotFound = errors.New("not found")
	ErrDenied   = errors.New("access denied")
	ErrChecksum = errors.New("checksum mismatch")
	ErrServer   = errors.New("server failed")
)

// DefaultEndpoint is the hub that is asked unless HF_ENDPOINT names another.
const DefaultEndpoint = "https://huggingface.co"

// Limits of patience.
const (
	maxAttempts       = 6               // without a byte of progress
	firstBackoff      = time.Second     // doubles with each attempt
	maxRetryAfter     = 5 * time.Minute // a server that asks for more is given up
	maxListingBytes   = 16 << 20
	headerTimeout     = 60 * time.Second
	maxRedirects      = 10
	copyBufferBytes   = 1 << 20
	maxFileNameLength = 255
)

// Progress is how far one file is. TotalBytes is -1 when the server does not say.
type Progress struct {
	File                             string
	DoneBytes, TotalBytes, FromBytes int64 // FromBytes were there already when this pull began
}

// Config says where models come from and where they go. Dir is needed, all else has a default.
type Config struct {
	Dir      string // made when it does not exist
	Endpoint string // of the hub; empty: DefaultEndpoint
	Token    string // sent to the endpoint alone, never to where it redirects
	// Transport carries the requests; nil: http.DefaultTransport with a limit on the wait for headers.
	Transport http.RoundTripper
	// Progress is called after each piece that arrives; nil: not at all.
	Progress func(Progress)
	// Retry is told why an attempt failed and how long it is until the next; may be nil.
	Retry func(err error, pause time.Duration)
	// Wait waits before another attempt; nil: by the clock.
	Wait func(ctx context.Context, d time.Duration) error
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	if c.Dir == "" {
		return errors.New("hub: no directory for models")
	}
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("hub: endpoint %q is no http or https URL; correct HF_ENDPOINT", c.Endpoint)
	}
	return nil
}

// Puller fetches models. It is safe for concurrent use as long as no two pulls are for the same file.
type Puller struct {
	config Config
	client *http.Client
}

// New returns a Puller.
func New(c Config) (*Puller, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Endpoint == "" {
		c.Endpoint = DefaultEndpoint
	}
	if c.Wait == nil {
		c.Wait = wait
	}
	if c.Retry == nil {
		c.Retry = func(error, time.Duration) {}
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = headerTimeout
		c.Transport = t
	}
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport: &authTransport{base: c.Transport, scheme: endpoint.Scheme, host: endpoint.Host, token: c.Token},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return fmt.Errorf("%w: %d redirects", ErrServer, len(via))
			}
			return nil
		},
	}
	return &Puller{config: c, client: client}, nil
}

// authTransport adds the token to requests for the endpoint itself. The token never stands in a request's own headers, so that no redirect can carry it on.
type authTransport struct {
	base                http.RoundTripper
	scheme, host, token string
}

// RoundTrip implements http.RoundTripper.
func (t *authTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.token != "" && r.URL.Scheme == t.scheme && r.URL.Host == t.host {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.base.RoundTrip(r)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Result is a pulled model.
type Result struct {
	Path     string `json:"path"` // of the file, or of the first shard
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
	Verified bool   `json:"verified"` // a checksum was known and matched
	Present  bool   `json:"present"`  // all was there already
}

// Pull brings a model into the directory. name is one of
//
//	owner/repo            a hub's repository with one model, or with one of 4 bits (Q4_K_M)
//	owner/repo:Q8_0       the file of that quantisation
//	owner/repo:x.gguf     that file
//	https://...           any URL, with #sha256=... where the checksum is known
//	./x.gguf              a file on this machine, which is copied
func (p *Puller) Pull(ctx context.Context, name string) (Result, error) {
	if err := os.MkdirAll(p.config.Dir, 0o755); err != nil {
		return Result{}, fmt.Errorf("make directory for models: %w", err)
	}
	files, err := p.resolve(ctx, name)
	if err != nil {
		return Result{}, fmt.Errorf("pull %s: %w", redact(name), err)
	}
	sum := Result{Path: filepath.Join(p.config.Dir, files[0].name), Files: len(files), Verified: true, Present: true}
	for _, f := range files {
		got, err := p.fetch(ctx, f)
		if err != nil {
			return Result{}, fmt.Errorf("pull %s: %s: %w", redact(name), f.name, err)
		}
		sum.Bytes += got.bytes
		sum.Verified = sum.Verified && got.verified
		sum.Present = sum.Present && got.present
	}
	return sum, nil
}

// redact takes a password out of a URL before it is shown.
func redact(name string) string {
	u, err := url.Parse(name)
	if err != nil || u.User == nil {
		return name
	}
	return u.Redacted()
}
