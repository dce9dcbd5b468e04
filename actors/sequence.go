package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"slicescheduler/actors/protocol"
	"slicescheduler/batching"
)

// sequence is a request while its tenant serves it.
type sequence struct {
	submit  *protocol.Submit
	gateway *actor.PID
	tokens  []int32 // prompt and answer
	output  int     // answer tokens
	most    int     // of them
	hashes  []batching.BlockHash
	opened  bool // the lane's last slice knows it
	paused  bool
	aside   bool  // paused for long and taken out of the scheduler, so that others get its slot
	sinceNs int64 // when it paused
	retries int

	cached                                 int
	preemptions                            int
	scheduledNs, firstTokenNs, lastTokenNs int64
}

func newSequence(m *protocol.Submit, gateway *actor.PID, salt uint64) *sequence {
	s := &sequence{submit: m, gateway: gateway, tokens: m.Prompt[:len(m.Prompt):len(m.Prompt)], output: len(m.Generated), most: int(m.MaxTokens)}
	s.tokens = append(s.tokens, m.Generated...)
	s.hash(salt)
	return s
}

// hash extends the hashes to every full page of tokens that are known, and returns those that are new.
func (s *sequence) hash(salt uint64) []batching.BlockHash {
	const page = batching.DefaultBlockTokens
	had := len(s.hashes)
	for n := had; (n+1)*page <= len(s.tokens); n++ {
		var before batching.BlockHash
		if n > 0 {
			before = s.hashes[n-1]
		}
		s.hashes = append(s.hashes, batching.HashBlock(before, s.tokens[n*page:(n+1)*page], salt))
	}
	return s.hashes[had:]
}

// toSchedule returns what a scheduler needs to know: tokens generated before count as prompt, since they are computed, not sampled.
func (s *sequence) toSchedule() batching.Request {
	return batching.Request{
		ID: batching.SeqID(s.submit.Seq), PromptTokens: len(s.tokens), MaxTokens: s.most - s.output,
		Blocks: s.hashes, Priority: int(s.submit.Priority), ArrivalNs: s.submit.ArrivalNs,
	}
}

// open returns what the last slice of a lane must know to sample the sequence from where it is.
func (s *sequence) open() *protocol.OpenSequence {
	return &protocol.OpenSequence{
		Seq: s.submit.Seq, Prompt: s.submit.Prompt, Generated: s.tokens[len(s.submit.Prompt):len(s.tokens):len(s.tokens)],
		Sampling: s.submit.Sampling, Logprobs: s.submit.Logprobs, MinTokens: s.submit.MinTokens,
	}
}

// state names where the sequence is in its life.
func (s *sequence) state() string {
	switch {
	case s.scheduledNs == 0:
		return "waiting"
	case s.firstTokenNs == 0:
		return "prefill"
	default:
		return "decode"
	}
}
