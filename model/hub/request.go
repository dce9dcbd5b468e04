package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// temporary is an error after which another attempt makes sense.
type temporary struct {
	err   error
	after time.Duration // as the server asks; 0: as we like
}

func (t *temporary) Error() string { return t.err.Error() }
func (t *temporary) Unwrap() error { return t.err }

// attempts calls f until it succeeds, fails for good, or has failed maxAttempts times in a row without progress; progressed may be nil.
func (p *Puller) attempts(ctx context.Context, f func() error, progressed func() bool) error {
	backoff := firstBackoff
	for failed := 0; ; {
		err := f()
		var t *temporary
		if err == nil || ctx.Err() != nil || !errors.As(err, &t) {
			return err
		}
		if progressed != nil && progressed() {
			failed, backoff = 0, firstBackoff
		}
		if failed++; failed >= maxAttempts {
			return fmt.Errorf("given up after %d attempts: %w", failed, err)
		}
		pause := max(backoff, t.after)
		if t.after > maxRetryAfter {
			return fmt.Errorf("%w; it asks to come back in %v", err, t.after)
		}
		p.config.Retry(err, pause)
		if err := p.config.Wait(ctx, pause); err != nil {
			return err
		}
		backoff *= 2
	}
}

// get sends a request. Failing to reach the server is temporary, unless nobody has its name.
func (p *Puller) get(ctx context.Context, url string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrName, err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("User-Agent", "slicer")
	// Compressed bytes would make nonsense of ranges and sizes.
	r.Header.Set("Accept-Encoding", "identity")
	resp, err := p.client.Do(r)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return nil, fmt.Errorf("%w: %w; correct the address, or name another hub with HF_ENDPOINT", ErrServer, err)
	case err != nil:
		return nil, &temporary{err: fmt.Errorf("%w: %w", ErrServer, err)}
	}
	return resp, nil
}

// statusError says what an answer other than success means and what helps. It reads nothing of the body that is shown to people.
func statusError(resp *http.Response) error {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	host := resp.Request.URL.Host
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%w: %s answered %s; the model may not exist or may need a licence to be accepted there; set HF_TOKEN to a token that may read it",
			ErrDenied, host, resp.Status)
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: %s has nothing under that name; check the spelling", ErrNotFound, host)
	case code == http.StatusTooManyRequests, code >= 500:
		return &temporary{err: fmt.Errorf("%w: %s answered %s", ErrServer, host, resp.Status), after: retryAfter(resp.Header.Get("Retry-After"))}
	}
	return fmt.Errorf("%w: %s answered %s", ErrServer, host, resp.Status)
}

// retryAfter reads seconds; a date or nonsense counts as nothing.
func retryAfter(value string) time.Duration {
	seconds, err := strconv.ParseInt(value, 10, 32)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// checksumOf finds a file's SHA-256 in the headers of an answer or of the redirects that led to it: hubs give the one from the LFS pointer as an entity tag.
// Tags of another length are no checksums.
func checksumOf(resp *http.Response) string {
	for r := resp; r != nil; r = r.Request.Response {
		for _, name := range []string{"X-Linked-Etag", "Etag"} {
			tag := strings.ToLower(strings.Trim(strings.TrimPrefix(r.Header.Get(name), "W/"), `"`))
			if isSHA256(tag) {
				return tag
			}
		}
	}
	return ""
}

// rangeStart reads the first position out of "bytes 5-9/10", and the total, -1 when it is not given.
func rangeStart(contentRange string) (start, total int64, err error) {
	span, size, found := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "/")
	first, _, dashed := strings.Cut(span, "-")
	if !found || !dashed {
		return 0, 0, fmt.Errorf("%w: Content-Range %q", ErrServer, contentRange)
	}
	if start, err = strconv.ParseInt(first, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("%w: Content-Range %q", ErrServer, contentRange)
	}
	if total, err = strconv.ParseInt(size, 10, 64); err != nil {
		total = -1
	}
	return start, total, nil
}
