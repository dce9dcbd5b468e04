package server

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"slicescheduler/actors"
	"slicescheduler/gmg"
	"slicescheduler/gpuworker/sampling"
)

// generation is a checked request for one or more answers.
type generation struct {
	base         actors.GenerateRequest // what all answers share
	n            int                    // answers a prompt
	stream       bool
	includeUsage bool
	tools        toolUse // of chats
}

// common reads the fields that chats and completions share. maxTokens fields and log probabilities differ and are read by the callers.
func (s *Server) common(f *fields) generation {
	g := generation{n: f.integer("n", 1, 1, s.config.Limits.Choices), stream: f.flag("stream")}
	g.includeUsage = streamOptions(f, g.stream)
	g.base = actors.GenerateRequest{
		MinTokens: f.integer("min_tokens", 0, 0, math.MaxInt32),
		IgnoreEOS: f.flag("ignore_eos"),
		Stop:      stops(f, s.config.Limits.Stops),
		Sampling:  samplingParams(f),
		Logprobs:  -1,
	}
	f.ignore("user", "metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "prediction")
	f.only(commonNeutral())
	return g
}

// commonNeutral are fields of OpenAI's and vLLM's APIs that are not supported, with the values that ask for what is done anyway.
func commonNeutral() map[string][]string {
	return map[string][]string{
		"store": {"false"}, "priority": {"0"}, "use_beam_search": {"false"}, "length_penalty": {"1", "1.0"}, "early_stopping": {"false"},
		"skip_special_tokens": {"true"}, "spaces_between_special_tokens": {"true"}, "include_stop_str_in_output": {"false"},
		"stop_token_ids": {"[]"}, "bad_words": {"[]"}, "prompt_logprobs": {}, "truncate_prompt_tokens": {}, "allowed_token_ids": {},
		"guided_json": {}, "guided_regex": {}, "guided_choice": {}, "guided_grammar": {}, "structured_outputs": {}, "logits_processors": {"[]"},
		"response_format": {`{"type":"text"}`}, "min_tokens_to_keep": {}, "typical_p": {"1", "1.0"}, "return_tokens_as_token_ids": {"false"},
		"return_token_ids": {"false"}, "grammar": {`""`}, "json_schema": {}, "cache_salt": {},
	}
}

func streamOptions(f *fields, stream bool) (includeUsage bool) {
	var raw map[string]json.RawMessage
	if !f.decode("stream_options", "an object", &raw) {
		return false
	}
	if !stream {
		f.fail(badField("stream_options", "only goes with stream: true"))
	}
	inner := &fields{raw: raw, used: make(map[string]bool)}
	includeUsage = inner.flag("include_usage")
	inner.ignore("include_obfuscation")
	inner.only(map[string][]string{"continuous_usage_stats": {"false"}})
	f.nested("stream_options", inner)
	return includeUsage
}

// nested takes over an inner object's error under its outer name.
func (f *fields) nested(outer string, inner *fields) {
	if err := inner.finish(); err != nil {
		e := *asAPIError(err)
		e.param, e.message = outer+"."+e.param, outer+"."+e.message
		f.fail(&e)
	}
}

func samplingParams(f *fields) sampling.Params {
	p := sampling.Default()
	p.Temperature = f.number("temperature", p.Temperature)
	p.TopP = f.number("top_p", p.TopP)
	p.MinP = f.number("min_p", p.MinP)
	p.TopK = f.integer("top_k", p.TopK, -1, math.MaxInt32)
	p.RepetitionPenalty = f.number("repetition_penalty", p.RepetitionPenalty)
	p.PresencePenalty = f.number("presence_penalty", p.PresencePenalty)
	p.FrequencyPenalty = f.number("frequency_penalty", p.FrequencyPenalty)
	var seed int64
	if p.HasSeed = f.decode("seed", "an integer of 64 bits", &seed); p.HasSeed {
		p.Seed = uint64(seed)
	}
	p.LogitBias = logitBias(f)
	return p
}

// logitBias reads a map from token ids to biases. That the ids are in the vocabulary is checked when the tenant is known.
func logitBias(f *fields) map[int32]float32 {
	var raw map[string]json.RawMessage
	if !f.decode("logit_bias", "an object", &raw) {
		return nil
	}
	bias := make(map[int32]float32, len(raw))
	for key, value := range raw {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 || strconv.FormatInt(id, 10) != key {
			f.fail(badField("logit_bias", "keys must be token ids, got %.40q", key))
			return nil
		}
		var b *float32
		if err := json.Unmarshal(value, &b); err != nil || b == nil {
			f.fail(badField("logit_bias", "the bias of token %d must be a number of -100 to 100, got %s", id, kindOf(value)))
			return nil
		}
		bias[int32(id)] = *b
	}
	return bias
}

func stops(f *fields, limit int) []string {
	raw := f.take("stop")
	if raw == nil {
		return nil
	}
	var list []string
	if raw[0] == '"' {
		list = []string{f.text("stop")}
	} else {
		var items []*string // a pointer, for null would pass as ""
		f.decode("stop", "a string or an array of strings", &items)
		for i, s := range items {
			if s == nil {
				f.fail(badField("stop", "item %d is null", i))
				return nil
			}
			list = append(list, *s)
		}
	}
	if len(list) > limit {
		f.fail(badField("stop", "at most %d strings, got %d", limit, len(list)))
	}
	for i, s := range list {
		if s == "" {
			f.fail(badField("stop", "string %d is empty", i))
		}
	}
	return list
}

// tenantName reads the model field, which names a tenant.
func tenantName(f *fields) gmg.TenantID {
	name := f.text("model")
	if name == "" {
		f.fail(badField("model", "is required: the name of a tenant"))
	}
	return gmg.TenantID(name)
}

// checkSampling checks parameters against their ranges and the tenant's vocabulary.
func checkSampling(g *generation, vocabSize int) error {
	if err := g.base.Sampling.Validate(vocabSize); err != nil {
		if field, ok := err.(*sampling.FieldError); ok { //nolint:errorlint // Validate's contract
			return badField(field.Field, "%s", field.Reason)
		}
		return fmt.Errorf("%w: %w", actors.ErrInvalid, err)
	}
	if most := g.base.MaxTokens; most > 0 && g.base.MinTokens > most {
		return badField("min_tokens", "must be at most max_tokens, %d, got %d", most, g.base.MinTokens)
	}
	return nil
}

// requests derives the requests for n answers to one prompt: the first has the seed that was given, the others those that follow.
func (g *generation) requests(id string, first int, prompt func(*actors.GenerateRequest)) []actors.GenerateRequest {
	list := make([]actors.GenerateRequest, g.n)
	for i := range list {
		r := g.base
		r.ID = fmt.Sprintf("%s-%d", id, first+i)
		r.Sampling.Seed += uint64(i)
		prompt(&r)
		list[i] = r
	}
	return list
}
