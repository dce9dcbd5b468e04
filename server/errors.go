package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"slicescheduler/actors"
	"slicescheduler/gmg"
	"slicescheduler/model"
)

// Types of errors, as OpenAI's API names them.
const (
	typeInvalid     = "invalid_request_error"
	typeAuth        = "authentication_error"
	typePermission  = "permission_error"
	typeRateLimit   = "rate_limit_error"
	typeServer      = "server_error"
	typeUnavailable = "service_unavailable_error"
)

// statusClientGone is what the access log shows when a client left before its answer; nobody receives it.
const statusClientGone = 499

// notReadyRetry is when a client should ask again for a tenant that is loading.
const notReadyRetry = 2 * time.Second

// apiError is an error in the form of OpenAI's API.
type apiError struct {
	status     int
	kind       string
	code       string
	param      string
	message    string
	retryAfter time.Duration
}

func (e *apiError) Error() string { return e.message }

func badField(param, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "invalid_value", param: param, message: param + ": " + fmt.Sprintf(format, args...)}
}

func (e *apiError) body() any {
	type fields struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	orNull := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return struct {
		Error fields `json:"error"`
	}{fields{e.message, e.kind, orNull(e.param), orNull(e.code)}}
}

// asAPIError finds the form in which an error of the node is told to clients. What is not known is told as an internal error without its text.
func asAPIError(err error) *apiError {
	var (
		api    *apiError
		field  *actors.FieldError
		tenant *gmg.TenantError
		queue  *actors.QueueError
	)
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &field):
		return badField(field.Field, "%s", field.Reason)
	case errors.As(err, &tenant):
		return badField(tenant.Field, "%s", tenant.Reason)
	case errors.As(err, &queue):
		return &apiError{status: http.StatusTooManyRequests, kind: typeRateLimit, code: "queue_full", message: err.Error(), retryAfter: max(time.Second, queue.RetryAfter)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &apiError{status: statusClientGone, kind: typeServer, code: "cancelled", message: "the request was cancelled"}
	}
	for _, k := range errorForms() {
		if errors.Is(err, k.is) {
			form := k.form
			form.message = err.Error()
			return &form
		}
	}
	return internalError()
}

func internalError() *apiError {
	return &apiError{status: http.StatusInternalServerError, kind: typeServer, code: "internal_error",
		message: "internal error; the node's log has more under this request's id"}
}

// errorFor is asAPIError for a request: a call that was cut short means that the client has gone only where the client has.
func errorFor(r *http.Request, err error) *apiError {
	e := asAPIError(err)
	if e.status != statusClientGone {
		return e
	}
	switch cause := context.Cause(r.Context()); {
	case cause == nil:
		return internalError()
	case errors.Is(cause, actors.ErrShutdown):
		return asAPIError(cause)
	}
	return e
}

type errorForm struct {
	is   error
	form apiError
}

func errorForms() []errorForm {
	return []errorForm{
		{actors.ErrNoTenant, apiError{status: http.StatusNotFound, kind: typeInvalid, code: "model_not_found", param: "model"}},
		{actors.ErrNoKey, apiError{status: http.StatusNotFound, kind: typeInvalid, code: "key_not_found"}},
		{actors.ErrTenantExists, apiError{status: http.StatusConflict, kind: typeInvalid, code: "tenant_exists", param: "id"}},
		{actors.ErrKeyExists, apiError{status: http.StatusConflict, kind: typeInvalid, code: "key_exists", param: "name"}},
		{actors.ErrTenantNotReady, apiError{status: http.StatusServiceUnavailable, kind: typeUnavailable, code: "tenant_not_ready", retryAfter: notReadyRetry}},
		{actors.ErrShutdown, apiError{status: http.StatusServiceUnavailable, kind: typeUnavailable, code: "shutting_down", retryAfter: notReadyRetry}},
		{actors.ErrQueueFull, apiError{status: http.StatusTooManyRequests, kind: typeRateLimit, code: "queue_full", retryAfter: time.Second}},
		{actors.ErrTooLong, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "context_length_exceeded"}},
		{actors.ErrTooLarge, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "kv_memory_exceeded"}},
		{actors.ErrNoTemplate, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "no_chat_template"}},
		{model.ErrMessage, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "invalid_value", param: "messages"}},
		{model.ErrNotFound, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "unknown_model", param: "model"}},
		{model.ErrFormat, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "malformed_model", param: "model"}},
		{model.ErrUnsupported, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "unsupported_model", param: "model"}},
		{gmg.ErrTenant, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "invalid_value"}},
		{actors.ErrInvalid, apiError{status: http.StatusBadRequest, kind: typeInvalid, code: "invalid_value"}},
		{actors.ErrFailed, apiError{status: http.StatusInternalServerError, kind: typeServer, code: "request_failed"}},
	}
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := errorFor(r, err)
	if e.status >= http.StatusInternalServerError {
		s.log.Warn("request failed", "requestId", requestID(r.Context()), "error", err)
	}
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(e.retryAfter.Seconds())))))
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="slicer"`)
	}
	writeJSON(w, e.status, e.body())
}

// writeJSON answers with a value. An error of writing means that the client has gone, and there is nobody to tell.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("answer does not encode: %v", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
