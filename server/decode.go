package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
	"unicode/utf8"
)

// maxDepth bounds how deep the values of a request may nest; the deepest valid ones have five levels.
const maxDepth = 32

// readFields receives and checks a request's body: one JSON object in valid UTF-8, without duplicate keys, without anything after it.
func (s *Server) readFields(w http.ResponseWriter, r *http.Request) (*fields, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.Limits.BodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &apiError{status: http.StatusRequestEntityTooLarge, kind: typeInvalid, code: "body_too_large",
			message: fmt.Sprintf("the body exceeds %d bytes", tooLarge.Limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, &apiError{status: http.StatusRequestTimeout, kind: typeInvalid, code: "body_timeout",
			message: fmt.Sprintf("the body did not arrive within %v", s.config.Limits.ReadTimeout)}
	case err != nil:
		return nil, &apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "body_incomplete", message: "the body did not arrive whole"}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // from here on the connection is only watched for the client leaving
	return parseFields(body)
}

func invalidJSON(param, format string, args ...any) *apiError {
	message := "invalid JSON: " + fmt.Sprintf(format, args...)
	if param != "" {
		message = param + ": " + message
	}
	return &apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "invalid_json", param: param, message: message}
}

// parseFields checks a body and takes it apart by field.
func parseFields(body []byte) (*fields, error) {
	if !utf8.Valid(body) {
		return nil, invalidJSON("", "the body is not UTF-8")
	}
	if err := checkJSON(body); err != nil {
		return nil, err
	}
	f := &fields{used: make(map[string]bool)}
	if err := json.Unmarshal(body, &f.raw); err != nil || f.raw == nil {
		return nil, invalidJSON("", "the body must be an object")
	}
	return f, nil
}

// jsonLevel is one open object or array of the value being checked.
type jsonLevel struct {
	keys      map[string]bool // nil in arrays
	wantValue bool            // in objects: a key was read, its value comes next
}

// checkJSON walks over a JSON text without building it. Errors name the outermost field they lie in and the offset in bytes.
func checkJSON(body []byte) error {
	var (
		decoder = json.NewDecoder(bytes.NewReader(body))
		levels  []jsonLevel
		field   string
	)
	decoder.UseNumber()
	for first := true; first || len(levels) > 0; first = false {
		token, err := decoder.Token()
		if err != nil {
			return syntaxError(body, field, decoder.InputOffset())
		}
		delim, isDelim := token.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if top := len(levels) - 1; top >= 0 && levels[top].keys != nil {
			if level := &levels[top]; level.wantValue {
				level.wantValue = false
			} else {
				key, _ := token.(string)
				if top == 0 {
					field = key
				}
				if level.keys[key] {
					return invalidJSON(field, "key %.80q appears twice, at offset %d", key, decoder.InputOffset())
				}
				level.keys[key], level.wantValue = true, true
				continue
			}
		}
		if isDelim {
			if len(levels) == maxDepth {
				return invalidJSON(field, "nested deeper than %d levels, at offset %d", maxDepth, decoder.InputOffset())
			}
			level := jsonLevel{}
			if delim == '{' {
				level.keys = make(map[string]bool)
			}
			levels = append(levels, level)
		}
	}
	if rest := bytes.TrimSpace(body[decoder.InputOffset():]); len(rest) > 0 {
		return invalidJSON("", "more follows the object, at offset %d", decoder.InputOffset())
	}
	return nil
}

// syntaxError finds the offset of an error that a walk met at or after from.
func syntaxError(body []byte, field string, from int64) error {
	var (
		value  json.RawMessage
		syntax *json.SyntaxError
	)
	if errors.As(json.Unmarshal(body, &value), &syntax) {
		return invalidJSON(field, "%v, at offset %d", syntax, syntax.Offset)
	}
	return invalidJSON(field, "at offset %d", from)
}
