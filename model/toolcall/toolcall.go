// Package toolcall finds the calls of tools in what models write, piece by piece as it comes, for the families whose chat templates say how calls are written.
package toolcall

import "strings"

// Format is a way of writing calls.
type Format uint8

// The formats. Hermes, Qwen 2.5 and 3 and Granite 4 write <tool_call>{"name": ..., "arguments": {...}}</tool_call>, once for each call. Llama 3.1 to 3.3 answer with
// {"name": ..., "parameters": {...}} and nothing else, sometimes behind <|python_tag|>, several with semicolons between them. Mistral writes [TOOL_CALLS] and then a list of
// {"name": ..., "arguments": {...}}, or, since 2025, NAME[ARGS]{...} behind a [TOOL_CALLS] for each call.
const (
	None Format = iota
	Hermes
	Llama
	Mistral
)

func (f Format) String() string { return [...]string{"none", "hermes", "llama", "mistral"}[f] }

// Marks of the formats.
const (
	hermesOpen  = "<tool_call>"
	hermesShut  = "</tool_call>"
	pythonTag   = "<|python_tag|>"
	mistralOpen = "[TOOL_CALLS]"
	mistralArgs = "[ARGS]"
	mistralID   = "[CALL_ID]"
)

// Detect tells from a chat template how its model writes calls. None also stands for formats that are not read, like those that write arguments as XML.
func Detect(template string) Format {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if !strings.Contains(template, p) {
				return false
			}
		}
		return true
	}
	switch {
	case has(mistralOpen):
		return Mistral
	case has("<function="), has("<tool_calls>"), has("arg_key"), has("<invoke"):
		return None
	case has(hermesOpen, hermesShut, `"name"`):
		return Hermes
	case has(`{"name": "`, `"parameters": `, "ipython"):
		return Llama
	}
	return None
}

// Marks are the texts of control tokens that a decoder must show for the calls to be found.
func (f Format) Marks() []string {
	return [...][]string{nil, {hermesOpen, hermesShut}, {pythonTag}, {mistralOpen, mistralArgs, mistralID}}[f]
}

// ShortIDs says that the family's templates want calls to have ids of nine letters and digits.
func (f Format) ShortIDs() bool { return f == Mistral }

// Piece is a part of an answer: text, or a part of a call.
type Piece struct {
	Text string
	// Call is the call's number from 0, or -1 for text.
	Call int
	// Name is the tool's, in a call's first piece alone.
	Name string
	// Arguments are a part of the call's arguments, which are JSON if the model wrote JSON.
	Arguments string
}

// Parser finds calls in one answer. It is not safe for concurrent use.
type Parser struct {
	format Format
	known  func(name string) bool
	state  func(p *Parser) bool // reads from held and says whether it got on; it may change the state
	held   string               // what was not read yet
	raw    strings.Builder      // what was read since the last text, in case it is no call after all
	call   *call
	calls  int
	inList bool // of Mistral's form
	ended  bool // no more text will come
	out    []Piece
}

// NewParser returns a parser for one answer. known says which tools there are; Llama's calls, which look like any JSON, count only if they call one of them.
func NewParser(f Format, known func(name string) bool) *Parser {
	p := &Parser{format: f, known: known, state: (*Parser).text}
	if f == Llama {
		p.state = (*Parser).first
	}
	return p
}

// Calls returns how many calls were found so far.
func (p *Parser) Calls() int { return p.calls }

// Push adds text and returns what is certain now. What may be the beginning of a call is held back.
func (p *Parser) Push(text string) []Piece {
	if p.format == None {
		p.say(text)
		return p.taken()
	}
	p.held += text
	for p.state(p) {
	}
	return p.taken()
}

// Close ends the answer and returns what was held back. A call that had begun stays as it is; what never became one is text.
func (p *Parser) Close() []Piece {
	p.ended = true
	if p.format != None {
		for p.state(p) {
		}
		switch {
		case p.call != nil && p.call.begun:
		default:
			p.giveBack()
			p.sayRest()
		}
	}
	return p.taken()
}

func (p *Parser) taken() []Piece {
	out := p.out
	p.out = nil
	return out
}

func (p *Parser) say(text string) {
	if text == "" {
		return
	}
	if n := len(p.out); n > 0 && p.out[n-1].Call < 0 {
		p.out[n-1].Text += text
		return
	}
	p.out = append(p.out, Piece{Text: text, Call: -1})
}

// sayRest says what is held at the end, but white space behind calls.
func (p *Parser) sayRest() {
	if p.calls == 0 || strings.TrimSpace(p.held) != "" {
		p.say(p.held)
	}
	p.held = ""
}

// read moves n bytes from what is held to what was read.
func (p *Parser) read(n int) {
	p.raw.WriteString(p.held[:n])
	p.held = p.held[n:]
}

// giveBack makes what was read held text again.
func (p *Parser) giveBack() {
	p.held = p.raw.String() + p.held
	p.raw.Reset()
	p.call = nil
}

// noCall says as text what was read and turned out to be no call. A mark at its beginning is not taken for one again.
func (p *Parser) noCall() bool {
	p.say(p.raw.String())
	p.raw.Reset()
	p.call = nil
	p.state = (*Parser).text
	return p.held != ""
}

func (p *Parser) skipSpace() {
	p.read(len(p.held) - len(strings.TrimLeft(p.held, " \t\r\n")))
}

// starts says whether what is held starts with a mark; maybe says that more text could make it so.
func (p *Parser) starts(mark string) (is, maybe bool) {
	return strings.HasPrefix(p.held, mark), !p.ended && len(p.held) < len(mark) && strings.HasPrefix(mark, p.held)
}

func (p *Parser) open() string {
	switch p.format {
	case Hermes:
		return hermesOpen
	case Mistral:
		return mistralOpen
	}
	return ""
}

// text says text up to the mark of a call. White space before the mark goes with it.
func (p *Parser) text() bool {
	mark := p.open()
	if mark == "" {
		p.say(p.held)
		p.held = ""
		return false
	}
	if at := strings.Index(p.held, mark); at >= 0 {
		shown := strings.TrimRight(p.held[:at], " \t\r\n")
		p.say(shown)
		p.held = p.held[len(shown):]
		p.read(at - len(shown) + len(mark))
		p.state = (*Parser).begin
		return true
	}
	if p.ended {
		return false
	}
	keep := 0
	for n := min(len(mark)-1, len(p.held)); n > 0; n-- {
		if strings.HasSuffix(p.held, mark[:n]) {
			keep = n
			break
		}
	}
	shown := strings.TrimRight(p.held[:len(p.held)-keep], " \t\r\n")
	p.say(shown)
	p.held = p.held[len(shown):]
	return false
}

// first looks at the beginning of an answer of Llama's, which is calls from there on or not at all.
func (p *Parser) first() bool {
	p.skipSpace()
	is, maybe := p.starts(pythonTag)
	switch {
	case is:
		p.read(len(pythonTag))
		p.skipSpace()
		p.state = (*Parser).begin
		return true
	case maybe, p.held == "":
		return false
	case p.held[0] == '{':
		p.state = (*Parser).begin
		return true
	}
	p.giveBack()
	p.state = (*Parser).text
	return true
}

// begin stands behind a call's mark.
func (p *Parser) begin() bool {
	p.skipSpace()
	if p.held == "" {
		return false
	}
	switch {
	case p.held[0] == '{':
		p.call = &call{}
		p.state = (*Parser).object
	case p.format == Mistral && p.held[0] == '[':
		p.read(1)
		p.inList = true
	case p.format == Mistral && !p.inList:
		p.state = (*Parser).name
	default:
		return p.noCall()
	}
	return true
}

// maxName is how long tools' names can be.
const maxName = 128

// name reads a call of Mistral's newer form up to its arguments.
func (p *Parser) name() bool {
	at := strings.IndexByte(p.held, '{')
	if at < 0 {
		if len(p.held) > maxName || p.ended {
			return p.noCall()
		}
		return false
	}
	name, _, _ := strings.Cut(p.held[:at], mistralArgs)
	name, _, _ = strings.Cut(name, mistralID)
	name = strings.TrimSpace(name)
	if name == "" || len(name) > maxName || strings.ContainsAny(name, " \n\"'(") {
		return p.noCall()
	}
	p.read(at)
	p.call = &call{name: name, phase: valuePhase, key: "arguments", bare: true}
	p.state = (*Parser).object
	return true
}

// object reads a call's JSON. Whether it is a call is decided byte by byte, so that it does not hang on how the text came.
func (p *Parser) object() bool {
	c, n, told := p.call, 0, p.call.begun
	for n < len(p.held) && !c.failed && !c.done {
		c.feed(p.held[n])
		n++
		if c.named() && p.format == Llama && !p.known(c.name) {
			c.failed = true
		}
		c.begun = c.begun || c.certain()
	}
	p.read(n)
	if c.failed && !c.begun {
		return p.noCall()
	}
	if arguments := c.fresh(); arguments != "" || c.begun && !told {
		piece := Piece{Call: p.calls, Arguments: arguments}
		if !told {
			piece.Name = c.name
		}
		p.out = append(p.out, piece)
	}
	if !c.done && !c.failed {
		return false
	}
	if !c.begun {
		return p.noCall()
	}
	p.raw.Reset()
	p.calls++
	p.call = nil
	p.state = (*Parser).behind
	return true
}

// behind stands behind a call's JSON.
func (p *Parser) behind() bool {
	p.held = strings.TrimLeft(p.held, " \t\r\n")
	if p.held == "" {
		return false
	}
	switch {
	case p.inList && p.held[0] == ',':
		p.held = p.held[1:]
		p.state = (*Parser).begin
		return true
	case p.inList && p.held[0] == ']':
		p.held = p.held[1:]
		p.inList = false
		return true
	case p.format == Llama && (p.held[0] == ';' || p.held[0] == ','):
		p.held = p.held[1:]
		return true
	case p.format == Llama && p.held[0] == '{':
		p.state = (*Parser).begin
		return true
	}
	mark := map[Format]string{Hermes: hermesShut, Llama: pythonTag}[p.format]
	if mark != "" {
		is, maybe := p.starts(mark)
		switch {
		case is && p.format == Llama:
			p.read(len(mark))
			p.state = (*Parser).begin
			return true
		case is:
			p.held = p.held[len(mark):]
		case maybe:
			return false
		}
	}
	p.inList = false
	p.state = (*Parser).text
	return true
}
