package cluster

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"sync"
	"time"
)

// How often a library may repeat itself: strangers who knock must not fill the log.
const (
	repeatAfter  = 10 * time.Second
	repeatPrefix = 48 // bytes by which messages are told apart
	repeatKinds  = 256
)

// libraryLog turns the lines of libraries that write "[LEVEL] text" into records.
type libraryLog struct {
	logger *slog.Logger
	mu     sync.Mutex
	last   map[string]time.Time
}

// newLibraryLogger returns a logger for memberlist and mdns.
func newLibraryLogger(l *slog.Logger, library string) *log.Logger {
	return log.New(&libraryLog{logger: l.With("lib", library), last: make(map[string]time.Time)}, "", 0)
}

func (w *libraryLog) Write(line []byte) (int, error) {
	level, text := slog.LevelDebug, bytes.TrimSpace(line)
	for tag, l := range map[string]slog.Level{"[DEBUG] ": slog.LevelDebug, "[INFO] ": slog.LevelDebug, "[WARN] ": slog.LevelWarn, "[ERR] ": slog.LevelWarn} {
		if rest, found := bytes.CutPrefix(text, []byte(tag)); found {
			level, text = l, rest
		}
	}
	if level < slog.LevelWarn || w.fresh(text, time.Now()) {
		w.logger.Log(context.Background(), level, string(text))
	}
	return len(line), nil
}

// fresh says whether a message of this kind was not written for a while.
func (w *libraryLog) fresh(text []byte, now time.Time) bool {
	key := string(text[:min(len(text), repeatPrefix)])
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, seen := w.last[key]; seen && now.Sub(last) < repeatAfter {
		return false
	}
	if len(w.last) >= repeatKinds {
		clear(w.last)
	}
	w.last[key] = now
	return true
}
