package actors

import (
	"context"
	"log/slog"
)

// quietHandler passes the actor library's records on a level lower: what it calls information is of use to nobody but those who debug it.
type quietHandler struct{ slog.Handler }

// quietLogger returns a logger for the actor library.
func quietLogger(l *slog.Logger) *slog.Logger {
	return slog.New(quietHandler{l.Handler()}).With("lib", "protoactor")
}

// Enabled implements slog.Handler.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, lower(level))
}

// Handle implements slog.Handler.
func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lower(r.Level)
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}

func lower(l slog.Level) slog.Level {
	if l < slog.LevelWarn {
		return slog.LevelDebug
	}
	return l
}
