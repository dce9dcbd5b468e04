package toolcall

import (
	"encoding/json"
	"strings"
)

// phase is where in a call's object the next byte stands.
type phase uint8

const (
	startPhase phase = iota // before the brace
	keyPhase                // before a key, or the closing brace
	colonPhase
	valuePhase
	afterPhase // behind a value
)

// call reads one call, a JSON object with a name and arguments, byte by byte.
type call struct {
	phase phase
	bare  bool // the object is the arguments themselves; the name is known
	name  string
	key   string
	value strings.Builder // the key or value that is being read
	json  nesting
	args  strings.Builder // arguments, as far as they are certain
	given int             // bytes of args that fresh returned
	// streaming says that the value being read is an object of arguments, all of which is certain at once.
	streaming bool
	complete  bool // the arguments are
	begun     bool // a first piece was given out
	done      bool // the object ended
	failed    bool // it is no such object
}

// named says whether the name is known.
func (c *call) named() bool { return c.name != "" }

// certain says whether it is known that this is a call: it has a name, and its arguments began or it ended without any.
func (c *call) certain() bool {
	if c.failed || !c.named() {
		return false
	}
	if c.done && !c.complete {
		c.args.WriteString("{}")
		c.complete = true
	}
	return c.complete || c.streaming
}

// fresh returns what of the arguments was not returned yet, once it is certain that this is a call.
func (c *call) fresh() string {
	if !c.begun {
		return ""
	}
	arguments := c.args.String()[c.given:]
	c.given = c.args.Len()
	return arguments
}

// feed reads one byte.
func (c *call) feed(b byte) {
	space := b == ' ' || b == '\n' || b == '\t' || b == '\r'
	switch c.phase {
	case startPhase:
		c.failed = b != '{'
		c.phase = keyPhase
	case keyPhase:
		c.feedKey(b, space)
	case colonPhase:
		switch {
		case b == ':':
			c.phase = valuePhase
		case !space:
			c.failed = true
		}
	case valuePhase:
		if c.value.Len() == 0 && space {
			return
		}
		c.feedValue(b)
	case afterPhase:
		c.feedAfter(b, space)
	}
}

func (c *call) feedAfter(b byte, space bool) {
	switch {
	case b == ',':
		c.phase = keyPhase
	case b == '}':
		c.done = true
	case !space:
		c.failed = true
	}
}

func (c *call) feedKey(b byte, space bool) {
	if c.value.Len() == 0 {
		switch {
		case space || b == ',':
			return
		case b == '}':
			c.done = true
			return
		case b != '"':
			c.failed = true
			return
		}
	}
	c.value.WriteByte(b)
	if !c.json.ends(b) {
		return
	}
	c.failed = json.Unmarshal([]byte(c.value.String()), &c.key) != nil
	c.value.Reset()
	c.phase = colonPhase
}

func (c *call) isArguments() bool { return c.key == "arguments" || c.key == "parameters" }

func (c *call) feedValue(b byte) {
	if c.value.Len() == 0 {
		c.json = nesting{}
		c.streaming = b == '{' && c.isArguments() && !c.complete
	}
	if literal := c.value.Len() > 0 && c.json.bare(); literal && (b == ',' || b == '}') {
		c.endValue()
		c.feedAfter(b, false)
		return
	}
	c.value.WriteByte(b)
	if c.streaming {
		c.args.WriteByte(b)
	}
	if c.json.ends(b) {
		c.endValue()
	}
}

// endValue takes over the value that ended.
func (c *call) endValue() {
	raw := strings.TrimSpace(c.value.String())
	c.value.Reset()
	c.json = nesting{}
	c.phase = afterPhase
	switch {
	case c.bare:
		c.complete, c.done = true, true
	case c.key == "name" && !c.named():
		var name string
		c.failed = json.Unmarshal([]byte(raw), &name) != nil || name == "" || len(name) > maxName
		c.name = name
	case c.isArguments() && !c.complete:
		c.complete = true
		if c.streaming {
			break
		}
		var text string
		switch {
		case raw == "null":
			raw = "{}"
		case json.Unmarshal([]byte(raw), &text) == nil:
			raw = text // some models write the arguments' JSON as a string
		}
		c.args.WriteString(raw)
	}
	c.streaming = false
}

// nesting follows a JSON value to its end.
type nesting struct {
	depth   int
	inText  bool
	escaped bool
	began   bool
	quoted  bool // the value is a string
}

// bare says that the value is a number or a word, which ends with what stands behind it.
func (n *nesting) bare() bool { return n.began && n.depth == 0 && !n.inText && !n.quoted }

// ends says whether the value ends with byte b.
func (n *nesting) ends(b byte) bool {
	first := !n.began
	n.began = true
	if n.inText {
		switch {
		case n.escaped:
			n.escaped = false
		case b == '\\':
			n.escaped = true
		case b == '"':
			n.inText = false
			if n.depth == 0 {
				*n = nesting{}
				return true
			}
		}
		return false
	}
	switch b {
	case '"':
		n.inText, n.quoted = true, n.quoted || first
	case '{', '[':
		n.depth++
	case '}', ']':
		n.depth--
		if n.depth <= 0 {
			*n = nesting{}
			return true
		}
	}
	return false
}
