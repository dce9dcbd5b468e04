package actors

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"slicescheduler/gmg"
	"slicescheduler/model"
	"slicescheduler/model/toolcall"
)

// withTenant runs f on a node that serves tenant a from a simulated device.
func withTenant(t *testing.T, f func(t *testing.T, n *testNode)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		n.await("a", stateReady)
		f(t, n)
	})
}

// A stop string of several tokens is found, none of it is shown, and the tokens shown are those of the text.
func TestStopStringOverSeveralTokens(t *testing.T) {
	withTenant(t, func(t *testing.T, n *testNode) {
		whole := n.generate(greedy("a", "tell me", 60))
		middle := len(whole.text) / 2
		for middle > 0 && whole.text[middle]&0xc0 == 0x80 {
			middle--
		}
		stop := strings.ToValidUTF8(whole.text[middle:min(len(whole.text), middle+12)], "")
		want, _, _ := strings.Cut(whole.text, stop)
		r := greedy("a", "tell me", 60)
		r.Stop, r.Logprobs = []string{"never there", stop}, 2
		a := n.generate(r)
		if a.text != want || a.last.Finish != FinishStop {
			t.Errorf("%q (%s), want %q", a.text, a.last.Finish, want)
		}
		if len(a.logprobs) != len(a.tokens) || a.last.Usage.CompletionTokens < len(a.tokens) {
			t.Errorf("%d tokens, %d log probabilities, usage %+v", len(a.tokens), len(a.logprobs), a.last.Usage)
		}
		for i, p := range a.logprobs {
			if p.Token != a.tokens[i] || len(p.Top) != 2 || p.Logprob > 0 || p.Top[0].Token != p.Token || p.Top[0].Logprob < p.Top[1].Logprob {
				t.Errorf("token %d is %d, log probability %+v", i, a.tokens[i], p)
			}
		}
		n.awaitIdle("a")
		if s := n.await("a", stateReady); s.SLA.Finished != 2 {
			t.Errorf("%d requests finished", s.SLA.Finished)
		}
	})
}

func TestTextNeverHoldsHalfACharacter(t *testing.T) {
	withTenant(t, func(t *testing.T, n *testNode) {
		for i := range 20 {
			s, err := n.Generate(t.Context(), greedy("a", fmt.Sprint("x", i), 50))
			if err != nil {
				t.Fatal(err)
			}
			var pieces []string
			var tokens []int32
			for {
				e, err := s.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				pieces, tokens = append(pieces, e.Text), append(tokens, e.Tokens...)
				if e.Finish != "" {
					break
				}
			}
			d := model.NewStreamDecoder(n.rt.tenants.get("a").model.Tokenizer)
			var want strings.Builder
			for _, token := range tokens {
				want.WriteString(d.Push(token))
			}
			want.WriteString(d.Flush())
			if got := strings.Join(pieces, ""); got != want.String() || len(tokens) != 50 {
				t.Errorf("%q of %d tokens, decoded at once %q", got, len(tokens), want.String())
			}
		}
	})
}

// The same seed gives the same answer, whatever runs beside it; without one, answers differ.
func TestSeeds(t *testing.T) {
	withTenant(t, func(t *testing.T, n *testNode) {
		r := greedy("a", "once", 30)
		r.Sampling.Temperature, r.Sampling.Seed, r.Sampling.HasSeed = 2, 7, true
		first := n.generate(r)
		beside, err := n.Generate(t.Context(), greedy("a", "something else", 100))
		if err != nil {
			t.Fatal(err)
		}
		if again := n.generate(r); again.text != first.text {
			t.Errorf("seed 7 gave %q, then %q", first.text, again.text)
		}
		beside.Close()
		r.Sampling.HasSeed = false
		texts := make(map[string]bool)
		for range 5 {
			texts[n.generate(r).text] = true
		}
		if len(texts) < 2 {
			t.Error("five requests without a seed gave one answer")
		}
	})
}

// An answer ends at the model's end token, but not before min_tokens. With ignore_eos it goes on behind end tokens, of which nothing is shown.
func TestEndToken(t *testing.T) {
	withTenant(t, func(t *testing.T, n *testNode) {
		end := n.rt.tenants.get("a").ends[0]
		r := greedy("a", "once", 40)
		r.IgnoreEOS, r.Sampling.LogitBias = false, map[int32]float32{end: 100}
		if a := n.generate(r); a.last.Finish != FinishStop || a.text != "" || len(a.tokens) != 0 || a.last.Usage.CompletionTokens != 1 {
			t.Errorf("ended at once: %+v", a)
		}
		r.MinTokens = 5
		least := n.generate(r)
		if a := least; a.last.Finish != FinishStop || len(a.tokens) != 5 || a.last.Usage.CompletionTokens != 6 {
			t.Errorf("after the minimum: %d tokens, %+v", len(a.tokens), a.last)
		}
		r.IgnoreEOS = true
		a := n.generate(r)
		if a.last.Finish != FinishLength || len(a.tokens) != 40 || a.last.Usage.CompletionTokens != 40 || a.text != least.text {
			t.Errorf("with ignore_eos: %d tokens, text %q, %+v; up to the end token the text is %q", len(a.tokens), a.text, a.last, least.text)
		}
		for i, token := range a.tokens {
			if (token == end) != (i >= r.MinTokens) {
				t.Errorf("token %d is %d; end tokens are masked before min_tokens and not behind", i, token)
			}
		}
	})
}

// The times that an answer comes with are those of the tenant that made its tokens, however far behind the gateway is: they agree with its SLA account.
func TestTimingIsTheTenants(t *testing.T) {
	n := start(t, NodeConfig{})
	defer n.stop()
	n.submit(gmg.TenantSpec{ID: "a"})
	n.await("a", stateReady)
	const tokens = 40
	timing := n.generate(greedy("a", "once", tokens)).last.Timing
	sla := n.await("a", stateReady).SLA
	ttft, tpot := ms(timing.FirstTokenNs-timing.ArrivalNs), ms(float64(timing.LastTokenNs-timing.FirstTokenNs)/(tokens-1))
	const roundingMs = 1e-5
	if math.Abs(sla.TTFTMs.Mean-ttft) > roundingMs || math.Abs(sla.TPOTMs.Mean-tpot) > roundingMs {
		t.Errorf("the answer says TTFT %v ms and TPOT %v ms, the account %v and %v", ttft, tpot, sla.TTFTMs.Mean, sla.TPOTMs.Mean)
	}
}

// A prompt that begins like one before is not computed again, and the answer is the same.
func TestPrefixReuse(t *testing.T) {
	withTenant(t, func(t *testing.T, n *testNode) {
		prompt := strings.Repeat("a long beginning ", 30)
		first := n.generate(greedy("a", prompt, 20))
		second := n.generate(greedy("a", prompt, 20))
		if second.text != first.text || first.last.Usage.CachedTokens != 0 || second.last.Usage.CachedTokens == 0 {
			t.Errorf("cached %d, then %d tokens; %q, then %q",
				first.last.Usage.CachedTokens, second.last.Usage.CachedTokens, first.text, second.text)
		}
	})
}

func TestPrompts(t *testing.T) {
	withTenant(t, func(t *testing.T, n *testNode) {
		text := n.generate(greedy("a", "once upon", 10))
		tokens, err := n.Tokenize(t.Context(), "a", "once upon", model.EncodeOptions{AddSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		r := greedy("a", "", 10)
		r.PromptTokens = tokens
		if a := n.generate(r); a.text != text.text || a.last.Usage.PromptTokens != len(tokens) {
			t.Errorf("tokens give %q, the text %q", a.text, text.text)
		}
		if a := n.generate(greedy("a", "", 10)); a.last.Usage.PromptTokens != 1 {
			t.Errorf("an empty prompt has %d tokens", a.last.Usage.PromptTokens)
		}
		chat := greedy("a", "", 10)
		chat.Messages = []model.Message{{Role: "user", Content: "hello"}}
		if a := n.generate(chat); a.last.Finish != FinishLength {
			t.Errorf("chat: %+v", a.last)
		}
		n.submit(gmg.TenantSpec{ID: "b", ChatTemplate: "{% for m in messages %}[{{ m.content }}]{% endfor %}"})
		chat.Tenant = "b"
		want, err := n.Tokenize(t.Context(), "b", "[hello]", model.EncodeOptions{AddSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		if a := n.generate(chat); a.last.Usage.PromptTokens != len(want) {
			t.Errorf("the tenant's own template gives %d tokens, want %d", a.last.Usage.PromptTokens, len(want))
		}
		n.submit(gmg.TenantSpec{ID: "c", ChatTemplate: "{% if tools %}{{ tools[0].function.name }}[TOOL_CALLS]{% endif %}"})
		chat.Tenant, chat.Tools = "c", []byte(`[{"type": "function", "function": {"name": "look"}}]`)
		want, err = n.Tokenize(t.Context(), "c", "look[TOOL_CALLS]", model.EncodeOptions{AddSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		if a := n.generate(chat); a.last.Usage.PromptTokens != len(want) {
			t.Errorf("a template that shows tools gives %d tokens, want %d", a.last.Usage.PromptTokens, len(want))
		}
		if m, err := n.TenantModel(t.Context(), "c"); err != nil || m.ToolFormat != toolcall.Mistral {
			t.Errorf("a template with Mistral's mark: %+v, %v", m, err)
		}
	})
}

// A pool too small for all forces preemption, and changes no answer.
func TestPreemptionChangesNoAnswer(t *testing.T) {
	const requests, tokens = 12, 60
	want := make([]string, requests)
	withTenant(t, func(t *testing.T, n *testNode) {
		for i := range want {
			want[i] = n.generate(greedy("a", fmt.Sprint("number ", i), tokens)).text
		}
	})
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Devices: devicesOf(tightDevice(t))})
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		n.await("a", stateReady)
		streams := make([]Stream, requests)
		for i := range streams {
			s, err := n.Generate(t.Context(), greedy("a", fmt.Sprint("number ", i), tokens))
			if err != nil {
				t.Fatal(err)
			}
			streams[i] = s
		}
		preemptions := 0
		for i, s := range streams {
			a := read(t, s)
			if a.text != want[i] {
				t.Errorf("request %d got %q, want %q", i, a.text, want[i])
			}
			preemptions += a.last.Timing.Preemptions
		}
		if preemptions == 0 {
			t.Error("nothing was preempted")
		}
	})
}
