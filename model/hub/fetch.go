package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// fetched is one file that is in place.
type fetched struct {
	bytes             int64
	verified, present bool
}

// fetch brings one file into the directory.
func (p *Puller) fetch(ctx context.Context, r remote) (fetched, error) {
	d := &download{p: p, remote: r, dest: filepath.Join(p.config.Dir, r.name), total: -1}
	if r.local != "" {
		return d.copyLocal(ctx)
	}
	if err := d.open(); err != nil {
		return fetched{}, err
	}
	defer d.part.Close()
	before := int64(0)
	err := p.attempts(ctx, func() error {
		before = d.done
		return d.attempt(ctx)
	}, func() bool { return d.done > before })
	switch {
	case errors.Is(err, errPresent):
		return fetched{bytes: d.total, verified: true, present: true}, d.discard()
	case err != nil:
		return fetched{}, err
	}
	return d.finish()
}

// errPresent ends a download whose file is there already.
var errPresent = errors.New("file is there already")

// download is one file on its way. What has arrived lies in dest.part, beside it in dest.part.json where it comes from. The hash follows what is written.
type download struct {
	p      *Puller
	remote remote
	dest   string

	part  *os.File
	hash  hash.Hash
	done  int64 // bytes in part
	from  int64 // of them there at the start
	total int64 // -1: not known
	sum   string
	tag   string // entity tag of the version that part holds
}

// origin is the content of a .part.json.
type origin struct {
	URL string `json:"url"`
	Tag string `json:"tag"`
}

func (d *download) partPath() string   { return d.dest + ".part" }
func (d *download) originPath() string { return d.dest + ".part.json" }

// open opens the part, and takes up what an earlier pull of the same file left.
func (d *download) open() (err error) {
	if d.part, err = os.OpenFile(d.partPath(), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	d.hash = sha256.New()
	var o origin
	data, err := os.ReadFile(d.originPath())
	if err != nil || json.Unmarshal(data, &o) != nil || o.URL != d.remote.url || o.Tag == "" {
		return d.restart()
	}
	if d.done, err = io.Copy(d.hash, d.part); err != nil {
		return err
	}
	d.from, d.tag = d.done, o.Tag
	return nil
}

// restart forgets what has arrived.
func (d *download) restart() error {
	d.hash.Reset()
	d.done, d.from, d.tag = 0, 0, ""
	if _, err := d.part.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return d.part.Truncate(0)
}

// attempt asks for what is missing and writes it. A server that has another version by now, or that knows no ranges, begins again.
func (d *download) attempt(ctx context.Context) error {
	header := make(http.Header)
	if d.done > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.done))
		header.Set("If-Range", d.tag)
	}
	resp, err := d.p.get(ctx, d.remote.url, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusPartialContent:
		err = d.resume(resp)
	case http.StatusOK:
		err = d.begin(resp)
	case http.StatusRequestedRangeNotSatisfiable:
		// All was there, or too much: only from the start can one tell.
		if err := d.restart(); err != nil {
			return err
		}
		return &temporary{err: fmt.Errorf("%w: the file has changed there", ErrServer)}
	default:
		return statusError(resp)
	}
	if err != nil {
		return err
	}
	return d.receive(resp.Body)
}

// resume checks that an answer goes on where the part ends.
func (d *download) resume(resp *http.Response) error {
	start, total, err := rangeStart(resp.Header.Get("Content-Range"))
	if err != nil {
		return err
	}
	if start != d.done {
		if err := d.restart(); err != nil {
			return err
		}
		return &temporary{err: fmt.Errorf("%w: it sent bytes from %d on, not what was asked for", ErrServer, start)}
	}
	d.total = total
	d.know(resp)
	return nil
}

// begin takes an answer that starts at the first byte.
func (d *download) begin(resp *http.Response) error {
	if err := d.restart(); err != nil {
		return err
	}
	d.total = resp.ContentLength
	d.know(resp)
	if d.sum != "" && d.matchesDest() {
		return errPresent
	}
	// A weak tag promises no equal bytes, so nothing can be resumed by it.
	if tag := resp.Header.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		d.tag = tag
	}
	data, err := json.Marshal(origin{d.remote.url, d.tag})
	if err != nil {
		return err
	}
	return os.WriteFile(d.originPath(), data, 0o644)
}

func (d *download) know(resp *http.Response) {
	if d.sum = d.remote.sha256; d.sum == "" {
		d.sum = checksumOf(resp)
	}
}

// matchesDest says whether the file is in place with the right content.
func (d *download) matchesDest() bool {
	f, err := os.Open(d.dest)
	if err != nil {
		return false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || d.total >= 0 && st.Size() != d.total {
		return false
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	d.total = n
	return err == nil && hex.EncodeToString(h.Sum(nil)) == d.sum
}

// receive writes what arrives. A connection that breaks is temporary.
func (d *download) receive(body io.Reader) error {
	buffer := make([]byte, copyBufferBytes)
	for {
		n, readErr := body.Read(buffer)
		if n > 0 {
			if _, err := d.part.Write(buffer[:n]); err != nil {
				return fmt.Errorf("write %s: %w", d.partPath(), err)
			}
			d.hash.Write(buffer[:n])
			d.done += int64(n)
			d.p.config.Progress(Progress{File: d.remote.name, DoneBytes: d.done, TotalBytes: d.total, FromBytes: d.from})
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return d.checkLength()
		case readErr != nil:
			return &temporary{err: fmt.Errorf("%w: connection lost at byte %d: %w", ErrServer, d.done, readErr)}
		}
	}
}

func (d *download) checkLength() error {
	if d.total >= 0 && d.done != d.total {
		return &temporary{err: fmt.Errorf("%w: it sent %d of %d bytes", ErrServer, d.done, d.total)}
	}
	return nil
}

// finish checks the whole and gives it its name.
func (d *download) finish() (fetched, error) {
	if got := hex.EncodeToString(d.hash.Sum(nil)); d.sum != "" && got != d.sum {
		return fetched{}, errors.Join(fmt.Errorf("%w: got %s, want %s; what arrived is deleted, pull again", ErrChecksum, got, d.sum), d.discard())
	}
	if err := errors.Join(d.part.Sync(), d.part.Close()); err != nil {
		return fetched{}, err
	}
	if err := os.Rename(d.partPath(), d.dest); err != nil {
		return fetched{}, err
	}
	_ = os.Remove(d.originPath()) // useless by now, and harmless
	return fetched{bytes: d.done, verified: d.sum != ""}, nil
}

func (d *download) discard() error {
	_ = d.part.Close()
	_ = os.Remove(d.originPath())
	return os.Remove(d.partPath())
}

// copyLocal copies a file of this machine.
func (d *download) copyLocal(ctx context.Context) (got fetched, err error) {
	src, err := os.Open(d.remote.local)
	if err != nil {
		return fetched{}, err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return fetched{}, err
	}
	if there, err := os.Stat(d.dest); err == nil && os.SameFile(st, there) {
		return fetched{bytes: st.Size(), present: true}, nil
	}
	if d.part, err = os.Create(d.partPath()); err != nil {
		return fetched{}, err
	}
	d.hash, d.total = sha256.New(), st.Size()
	if err := d.receive(contextReader{ctx, src}); err != nil {
		return fetched{}, errors.Join(err, d.discard())
	}
	return d.finish()
}

// contextReader stops reading when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
