package servertest

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"slicescheduler/actors"
	"slicescheduler/gmg"
	"slicescheduler/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "alpha"

// scripted is a node with one tenant that says the same to everybody. Calls that are not below would panic.
type scripted struct{ actors.API }

func (scripted) Generate(context.Context, actors.GenerateRequest) (actors.Stream, error) {
	token := func(id int32, s string) []actors.TokenLogprob {
		return []actors.TokenLogprob{{Token: id, Bytes: []byte(s), Logprob: -1}}
	}
	return &stream{
		{Text: "Hel", Tokens: []int32{1}, Logprobs: token(1, "Hel")},
		{Text: "lö", Tokens: []int32{2}, Logprobs: token(2, "lö")},
		{Finish: actors.FinishStop, Usage: actors.Usage{PromptTokens: 7, CompletionTokens: 2}},
	}, nil
}

func (scripted) TenantModel(_ context.Context, t gmg.TenantID) (actors.TenantModel, error) {
	if t != tenant {
		return actors.TenantModel{}, actors.ErrNoTenant
	}
	return actors.TenantModel{Tenant: t, Model: "m", ContextTokens: 100, VocabSize: 50}, nil
}

func (scripted) Tenants(context.Context) ([]actors.TenantStatus, error) {
	return []actors.TenantStatus{{Spec: gmg.TenantSpec{ID: tenant}}}, nil
}

func (scripted) Keys(_ context.Context, t gmg.TenantID) ([]actors.KeyInfo, error) {
	if t != tenant {
		return nil, actors.ErrNoTenant
	}
	return nil, nil
}

func (scripted) CheckKey(context.Context, string) (gmg.TenantID, bool) { return "", false }

// stream gives its events one after the other.
type stream []actors.Event

func (s *stream) ID() string { return "1" }
func (s *stream) Close()     {}

func (s *stream) Next(context.Context) (actors.Event, error) {
	if len(*s) == 0 {
		return actors.Event{}, actors.ErrStreamClosed
	}
	e := (*s)[0]
	*s = (*s)[1:]
	return e, nil
}

func TestOpenAIClient(t *testing.T) {
	s, err := server.New(server.Config{API: scripted{}, Loopback: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(s)
	defer listener.Close()
	Run(t, listener.URL, tenant)
}
