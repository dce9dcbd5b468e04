package actors

import "strings"

// textDecoder turns tokens into text as characters become whole; model.StreamDecoder is the one in use.
type textDecoder interface {
	// Push returns the text that a token completes, perhaps none.
	Push(token int32) string
	// Flush returns what is left at the end.
	Flush() string
}

// transcript turns an answer's tokens into its events: it decodes, looks for stop strings, and holds back what may be the start of one. Text and
// tokens come out together: a token is released with the last of its text, so log probabilities stay aligned.
type transcript struct {
	decoder  textDecoder
	stops    []string
	logprobs bool // wanted in events
	minimum  int  // tokens before which stop strings don't count
	count    int  // tokens pushed
	released int  // bytes of text released
	held     string
	tokens   []heldToken
}

// heldToken is a token whose text isn't released yet; start and end are byte offsets in the answer's text.
type heldToken struct {
	logprob    TokenLogprob
	start, end int
}

func newTranscript(d textDecoder, stops []string, minimum int, logprobs bool) *transcript {
	return &transcript{decoder: d, stops: stops, minimum: minimum, logprobs: logprobs}
}

// push adds a token. It returns what may be shown now, and whether a stop string ends the answer here, in which case nothing more comes.
func (t *transcript) push(token TokenLogprob) (e Event, stopped bool) {
	t.count++
	start := t.released + len(t.held)
	t.held += t.decoder.Push(token.Token)
	t.tokens = append(t.tokens, heldToken{token, start, t.released + len(t.held)})
	if t.count < t.minimum {
		t.release(&e, len(t.held))
		return e, false
	}
	if at := t.findStop(); at >= 0 {
		t.cut(&e, at)
		return e, true
	}
	t.release(&e, len(t.held)-t.possibleStop())
	return e, false
}

// finish returns what was held back when the answer ends without a stop string.
func (t *transcript) finish() (e Event) {
	t.held += t.decoder.Flush()
	if n := len(t.tokens); n > 0 {
		t.tokens[n-1].end = t.released + len(t.held)
	}
	if at := t.findStop(); at >= 0 && t.count >= t.minimum {
		t.cut(&e, at)
		return e
	}
	t.release(&e, len(t.held))
	return e
}

// release moves the first n bytes of held text, and the tokens that end there, into an event.
func (t *transcript) release(e *Event, n int) {
	e.Text += t.held[:n]
	t.held = t.held[n:]
	t.released += n
	out := 0
	for out < len(t.tokens) && t.tokens[out].end <= t.released {
		t.emit(e, out)
		out++
	}
	t.tokens = append(t.tokens[:0], t.tokens[out:]...)
}

// cut releases the text before a stop string at an offset of the held text, with the tokens that contributed to it, and drops the rest.
func (t *transcript) cut(e *Event, at int) {
	t.release(e, at)
	for i := range t.tokens {
		if t.tokens[i].start < t.released {
			t.emit(e, i)
		}
	}
	t.held, t.tokens = "", nil
}

func (t *transcript) emit(e *Event, i int) {
	e.Tokens = append(e.Tokens, t.tokens[i].logprob.Token)
	if t.logprobs {
		e.Logprobs = append(e.Logprobs, t.tokens[i].logprob)
	}
}

// findStop returns the offset of the first stop string in the held text, or -1.
func (t *transcript) findStop() int {
	first := -1
	for _, s := range t.stops {
		if at := strings.Index(t.held, s); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// possibleStop returns the length of the longest end of the held text with which a stop string may begin.
func (t *transcript) possibleStop() int {
	longest := 0
	for _, s := range t.stops {
		for n := min(len(s)-1, len(t.held)); n > longest; n-- {
			if t.held[len(t.held)-n:] == s[:n] {
				longest = n
				break
			}
		}
	}
	return longest
}
