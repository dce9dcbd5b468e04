package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Limits of a session.
const (
	MaxMessageBytes = 8 << 20  // of a body
	maxQueueBytes   = 64 << 20 // that wait to be sent; a peer that is so far behind is given up
	bufferBytes     = 64 << 10
	headBytes       = 5
	kindAlive       = 0
)

// Errors of sessions.
var (
	ErrClosed   = errors.New("session has ended")
	ErrTooLarge = errors.New("message is too large to be sent")
	ErrFrame    = errors.New("invalid frame")
	ErrBehind   = errors.New("the other node doesn't read what it is sent")
)

// Handler takes what a session brings, from one goroutine a session. Opened is called once, first, and Closed once, last.
type Handler interface {
	Opened(s *Session)
	Message(s *Session, kind byte, body []byte) // the body is the callee's
	Closed(s *Session, why error)
}

// Session is one connection with another node. Its methods may be called from any goroutine.
type Session struct {
	Peer   Hello // what the other end said
	conn   net.Conn
	reader *bufio.Reader
	timing Timing

	mu     sync.Mutex
	queue  []frame
	queued int // bytes
	closed error
	wake   chan struct{}
	ended  chan struct{}
}

type frame struct {
	kind byte
	body []byte
}

func newSession(peer Hello, conn net.Conn, reader *bufio.Reader, t Timing) *Session {
	return &Session{Peer: peer, conn: conn, reader: reader, timing: t, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Send puts a message into the queue and keeps its bytes. It doesn't block. Kinds are 1 to 255. A message that can't be sent at all costs nothing but itself.
func (s *Session) Send(kind byte, body []byte) error {
	if len(body) > MaxMessageBytes || kind == kindAlive {
		return fmt.Errorf("%w: kind %d of %d bytes, at most %d fit", ErrTooLarge, kind, len(body), MaxMessageBytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return s.closed
	}
	if s.queued += headBytes + len(body); s.queued > maxQueueBytes {
		s.end(ErrBehind)
		return s.closed
	}
	s.queue = append(s.queue, frame{kind, body})
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Close ends the session; what waits to be sent is lost.
func (s *Session) Close() { s.fail(ErrClosed) }

// Ended is closed with the session.
func (s *Session) Ended() <-chan struct{} { return s.ended }

func (s *Session) fail(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(why)
}

// end needs the lock.
func (s *Session) end(why error) {
	if s.closed != nil {
		return
	}
	s.closed, s.queue = why, nil
	close(s.ended)
	s.conn.Close()
}

func (s *Session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// run reads until the session ends.
func (s *Session) run(h Handler) {
	var writing sync.WaitGroup
	h.Opened(s)
	writing.Go(s.write)
	s.fail(s.read(h))
	writing.Wait()
	h.Closed(s, s.why())
}

func (s *Session) read(h Handler) error {
	for {
		var head [headBytes]byte
		if _, err := io.ReadFull(s.reader, head[:]); err != nil {
			return fmt.Errorf("%w: %w", ErrClosed, err)
		}
		n := binary.BigEndian.Uint32(head[:])
		if n < 1 || n > MaxMessageBytes+1 {
			return fmt.Errorf("%w: of %d bytes", ErrFrame, n)
		}
		body := make([]byte, n-1)
		if _, err := io.ReadFull(s.reader, body); err != nil {
			return fmt.Errorf("%w: %w", ErrClosed, err)
		}
		if head[4] != kindAlive {
			h.Message(s, head[4], body)
		}
	}
}

// write sends what is queued, and a sign of life when nothing is.
func (s *Session) write() {
	w := bufio.NewWriterSize(s.conn, bufferBytes)
	alive := time.NewTicker(s.timing.Alive)
	defer alive.Stop()
	for {
		frames := s.take()
		if len(frames) == 0 {
			select {
			case <-s.wake:
				continue
			case <-alive.C:
				frames = []frame{{kind: kindAlive}}
			case <-s.ended:
				return
			}
		}
		if err := writeFrames(w, frames); err != nil {
			s.fail(fmt.Errorf("%w: %w", ErrClosed, err))
			return
		}
		s.sent(frames)
	}
}

func writeFrames(w *bufio.Writer, frames []frame) error {
	for _, f := range frames {
		var head [headBytes]byte
		binary.BigEndian.PutUint32(head[:], uint32(len(f.body)+1))
		head[4] = f.kind
		if _, err := w.Write(head[:]); err != nil {
			return err
		}
		if _, err := w.Write(f.body); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (s *Session) take() []frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	frames := s.queue
	s.queue = nil
	return frames
}

func (s *Session) sent(frames []frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range frames {
		if f.kind != kindAlive {
			s.queued -= headBytes + len(f.body)
		}
	}
}

// watched is a connection that ends when the other side is silent, or takes nothing, for too long.
type watched struct {
	net.Conn
	silence time.Duration
}

// Read implements net.Conn.
func (w watched) Read(b []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(w.silence)); err != nil {
		return 0, err
	}
	return w.Conn.Read(b)
}

// Write implements net.Conn.
func (w watched) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.silence)); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}
