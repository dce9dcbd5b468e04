package demo

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"slicescheduler/actors"
	"slicescheduler/gmg"
)

func TestPlainKeepsTenantsApart(t *testing.T) {
	var b bytes.Buffer
	p := NewPlain(&b, Tenants(), 40)
	for _, u := range []Update{
		{Tenant: 0, Question: "One?"}, {Tenant: 2, Question: "Two?"},
		{Tenant: 0, Text: "This is a long answer "}, {Tenant: 2, Text: "Short."}, {Tenant: 0, Text: "that has to be wrapped."},
		{Tenant: 2, Done: &Answer{}}, {Tenant: 0, Done: &Answer{}},
	} {
		p.Show(u)
	}
	want := "story > One?\nguide > Two?\nstory | This is a long answer that has\nguide | Short.\nstory | to be wrapped.\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

func TestTotals(t *testing.T) {
	var sum Totals
	sum.Add(Answer{Tokens: 11, TTFT: 10 * time.Millisecond, Decoding: 100 * time.Millisecond})
	sum.Add(Answer{Tokens: 1, TTFT: 30 * time.Millisecond})
	if sum.Tokens != 12 || sum.MeanTTFT() != 20*time.Millisecond || sum.TPOT() != 10*time.Millisecond {
		t.Errorf("got %+v with TTFT %v, TPOT %v", sum, sum.MeanTTFT(), sum.TPOT())
	}
	if got := sum.TokensPerS(); got < 85 || got > 86 {
		t.Errorf("%v tokens/s, want 12 in 140 ms", got)
	}
	if (&Totals{}).TokensPerS() != 0 || (&Totals{}).TPOT() != 0 {
		t.Error("nothing measured gives figures")
	}
}

// filled is a screen in the middle of the demo.
func filled(width, height int) *screen {
	tenants := Tenants()
	s := newScreen(tenants, make([]Totals, len(tenants)), func() {})
	s.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for i := range tenants {
		s.Update(updateMsg{Tenant: i, Question: "Tell me a story about a very long-winded owl and an elephantastically-long-word."})
		s.Update(updateMsg{Tenant: i, Text: strings.Repeat("The ölige owl said “hoo” to everyone who came by. ", 20)})
	}
	for range 60 {
		s.Update(frameMsg{})
	}
	device := actors.DeviceStatus{Device: gmg.Device{ID: "demo/cpu0", MemoryBytes: 8 << 20}, FreeBytes: 1 << 20, BusyPct: 100,
		Held: map[string]int64{"weights": 2 << 20, "kv": 3 << 20}}
	s.Update(devicesMsg{device, device})
	return s
}

func TestScreenFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}, {100, 30}} {
		view := filled(size[0], size[1]).View().Content
		lines := strings.Split(view, "\n")
		if len(lines) > size[1] {
			t.Errorf("%v: %d rows", size, len(lines))
		}
		for _, line := range lines {
			if w := lipgloss.Width(line); w > size[0] {
				t.Errorf("%v: %d columns: %q", size, w, line)
			}
		}
		if !strings.Contains(view, "cpu0") || !strings.Contains(view, "story") {
			t.Errorf("%v: something is missing:\n%s", size, view)
		}
	}
}

func TestScreenGivesTurns(t *testing.T) {
	s := filled(80, 24)
	for i := range s.columns {
		if err := s.awaitTurn(t.Context(), i); err != nil {
			t.Fatal("no turn for the first question")
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.awaitTurn(ended, 0); err == nil {
		t.Error("the second question came before the first answer stood on the screen")
	}
	for i := range s.columns {
		s.Update(updateMsg{Tenant: i, Done: &Answer{Tokens: 200, Decoding: time.Second}})
	}
	frames := 0
	for !s.advance() {
		if frames++; frames > 1000 {
			t.Fatal("the screen never catches up")
		}
	}
	for i := range s.columns {
		if len(s.columns[i].turn) != 1 {
			t.Errorf("tenant %d has no turn after its answer", i)
		}
	}
	if s.totals[1].Tokens != 200 {
		t.Errorf("totals %+v", s.totals[1])
	}
}

func TestScreenEnds(t *testing.T) {
	canceled := false
	s := newScreen(Tenants(), make([]Totals, 3), func() { canceled = true })
	if _, cmd := s.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}); cmd == nil || !s.interrupted || !canceled {
		t.Error("Ctrl-C does not end it")
	}
	s = newScreen(Tenants(), make([]Totals, 3), func() {})
	s.Update(endMsg{})
	if _, cmd := s.Update(frameMsg{}); cmd == nil {
		t.Error("it does not end by itself")
	}
}

func TestCutKeepsCharactersWhole(t *testing.T) {
	for n := range 8 {
		if got := cut("aöb€", n); !strings.HasPrefix("aöb€", got) || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("%d: %q", n, got)
		}
	}
}
