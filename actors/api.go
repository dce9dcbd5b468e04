// Package actors is the distributed runtime: the message protocol and the actors (gateway, tenant, slice, GPU, GMG, planner). They are thin: they
// move messages and call the pure rooms.
package actors

import (
	"context"
	"errors"
	"time"

	"slicescheduler/gmg"
	"slicescheduler/gpuworker/sampling"
	"slicescheduler/model"
	"slicescheduler/model/toolcall"
)

// Errors that callers of API tell apart with errors.Is.
var (
	ErrNoTenant       = errors.New("no such tenant")
	ErrTenantExists   = errors.New("tenant exists")
	ErrTenantNotReady = errors.New("tenant is not ready")
	ErrQueueFull      = errors.New("tenant's queue is full")
	ErrTooLong        = errors.New("request exceeds the context")
	ErrTooLarge       = errors.New("request exceeds the tenant's KV memory")
	ErrInvalid        = errors.New("invalid request")
	ErrNoTemplate     = model.ErrNoTemplate
	ErrShutdown       = errors.New("node is shutting down")
)

// FieldError is an invalid request with the field at fault; it is an ErrInvalid.
type FieldError struct {
	Field, Reason string
}

func (e *FieldError) Error() string        { return e.Field + ": " + e.Reason }
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// LengthError is a prompt (plus the answer asked for) that exceeds a limit; Is(ErrTooLong) or, for the KV pool, Is(ErrTooLarge).
type LengthError struct {
	PromptTokens, MaxTokens, LimitTokens int
	Pool                                 bool
}

// QueueError is an ErrQueueFull with the time after which a retry makes sense.
type QueueError struct {
	Tenant     gmg.TenantID
	RetryAfter time.Duration
}

// GenerateRequest asks one tenant for one answer. Exactly one of Messages, Prompt and PromptTokens is used.
type GenerateRequest struct {
	ID           string // unique; chosen by the gateway when empty
	Tenant       gmg.TenantID
	Messages     []model.Message // chat
	Tools        []byte          // of a chat: a JSON array of tools as in OpenAI's API, or nil; calls of them are text in the answer
	Prompt       string          // completion; special tokens in it stay literal
	PromptTokens []int32
	MaxTokens    int  // 0: up to the context's end
	MinTokens    int  // end tokens can't be chosen before so many
	IgnoreEOS    bool // end tokens may be chosen, and the answer goes on behind them
	Stop         []string
	Sampling     sampling.Params
	// Logprobs < 0: none; 0: the chosen token's; n: with the n most likely.
	Logprobs int
	Priority int
}

// FinishReason says why an answer ended.
type FinishReason string

// Finish reasons, as in OpenAI's API.
const (
	FinishStop   FinishReason = "stop"
	FinishLength FinishReason = "length"
	FinishError  FinishReason = "error"
	FinishCancel FinishReason = "cancelled"
)

// TokenLogprob is one token with its log probability and, when asked for, the most likely alternatives.
type TokenLogprob struct {
	Token   int32
	Bytes   []byte
	Logprob float64
	Top     []TokenLogprob
}

// Usage counts a request's tokens.
type Usage struct {
	PromptTokens, CachedTokens, CompletionTokens int
}

// Event is one item of an answer's stream: text with the tokens that made it, and at last a Finish. Text never holds half a character, and never text that
// may be the start of a stop string. After an Event with Finish set nothing follows.
type Event struct {
	Text     string
	Tokens   []int32
	Logprobs []TokenLogprob
	Finish   FinishReason // empty until the last
	Err      error        // with FinishError
	Usage    Usage        // with Finish
	Timing   Timing       // with Finish
}

// Timing are a request's moments in Unix nanoseconds, and its lane. A token's moment is when its tenant got it, not when the client did.
type Timing struct {
	ArrivalNs, ScheduledNs, FirstTokenNs, LastTokenNs int64
	Lane                                              gmg.LaneID
	Preemptions                                       int
}

// Stream is a running answer.
type Stream interface {
	// ID returns the request's id.
	ID() string
	// Next blocks for the next event, or until ctx is done (which does not cancel the request).
	Next(ctx context.Context) (Event, error)
	// Close cancels the request if it still runs; its slot and KV are free within one step. It is idempotent.
	Close()
}

// API is what the server and the command line need of a node. All of it ends in actor messages; calls block until answered or ctx is done.
type API interface {
	// Generate admits a request or refuses it at once with one of the errors above.
	Generate(ctx context.Context, r GenerateRequest) (Stream, error)
	// Tokenize encodes text as the tenant's model does.
	Tokenize(ctx context.Context, t gmg.TenantID, text string, o model.EncodeOptions) ([]int32, error)
	// TenantModel tells what is served.
	TenantModel(ctx context.Context, t gmg.TenantID) (TenantModel, error)

	SubmitTenant(ctx context.Context, s gmg.TenantSpec) error // ErrTenantExists when a different spec has the name
	RemoveTenant(ctx context.Context, t gmg.TenantID) error
	Tenants(ctx context.Context) ([]TenantStatus, error)
	Tenant(ctx context.Context, t gmg.TenantID) (TenantStatus, error)
	// AddKey makes an API key of a tenant, returned in clear this once and kept as a hash.
	AddKey(ctx context.Context, t gmg.TenantID, name string) (key string, err error)
	RemoveKey(ctx context.Context, t gmg.TenantID, name string) error
	Keys(ctx context.Context, t gmg.TenantID) ([]KeyInfo, error)
	// CheckKey says which tenant a key belongs to.
	CheckKey(ctx context.Context, key string) (gmg.TenantID, bool)

	Nodes(ctx context.Context) ([]NodeStatus, error)
	Devices(ctx context.Context) ([]DeviceStatus, error)
	Slices(ctx context.Context) ([]SliceStatus, error)
	Requests(ctx context.Context) ([]RequestStatus, error)
	// Ready says whether the node takes requests, and why not.
	Ready(ctx context.Context) (bool, string)
}

// TenantModel describes the model that a tenant serves.
type TenantModel struct {
	Tenant        gmg.TenantID `json:"tenant"`
	Model         string       `json:"model"`
	ContextTokens int          `json:"contextTokens"`
	VocabSize     int          `json:"vocabSize"`
	HasTemplate   bool         `json:"hasTemplate"`
	// ToolFormat is how the model's answers call tools, as far as its chat template tells.
	ToolFormat   toolcall.Format `json:"-"`
	CreatedUnixS int64           `json:"createdUnixS"`
}

// TenantStatus is a tenant as listings show it.
type TenantStatus struct {
	Spec    gmg.TenantSpec `json:"spec"`
	State   string         `json:"state"` // loading, ready, failed, removing
	Reason  string         `json:"reason,omitempty"`
	Lanes   []gmg.Lane     `json:"lanes"`
	Waiting int            `json:"waiting"`
	Running int            `json:"running"`
	KVFree  int            `json:"kvBlocksFree"`
	KVTotal int            `json:"kvBlocksTotal"`
	SLA     SLAStatus      `json:"sla"`
}

// SLAStatus is a tenant's SLA accounting since the node started.
type SLAStatus struct {
	Requests         int64     `json:"requests"`
	Finished         int64     `json:"finished"`
	Violations       int64     `json:"violations"`
	ViolationsPct    float64   `json:"violationsPct"`
	PromptTokens     int64     `json:"promptTokens"`
	CompletionTokens int64     `json:"completionTokens"`
	TTFTLimitMs      float64   `json:"ttftLimitMs"` // 0: relative to the request alone
	TPOTLimitMs      float64   `json:"tpotLimitMs"`
	TTFTMs           Quantiles `json:"ttftMs"`
	TPOTMs           Quantiles `json:"tpotMs"`
	LatencyMs        Quantiles `json:"latencyMs"`
}

// Quantiles summarise a distribution.
type Quantiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// KeyInfo is an API key without its secret.
type KeyInfo struct {
	Name         string `json:"name"`
	Prefix       string `json:"prefix"`
	CreatedUnixS int64  `json:"createdUnixS"`
}

// NodeStatus is a node as listings show it.
type NodeStatus struct {
	ID          gmg.NodeID `json:"id"`
	State       string     `json:"state"`
	Version     string     `json:"version"`
	HTTP        string     `json:"http"`
	Incarnation uint64     `json:"incarnation"`
	StartUnixS  int64      `json:"startUnixS"`
}

// DeviceStatus is a device as listings show it.
type DeviceStatus struct {
	Device gmg.Device      `json:"device"`
	State  gmg.DeviceState `json:"state"`
	// Held is the ledger by class name.
	Held      map[string]int64 `json:"heldBytes"`
	FreeBytes int64            `json:"freeBytes"`
	BusyPct   float64          `json:"busyPct"` // over the last seconds
}

// SliceStatus is a slice as listings show it.
type SliceStatus struct {
	Tenant gmg.TenantID `json:"tenant"`
	Lane   gmg.LaneID   `json:"lane"`
	Index  int          `json:"index"`
	Slice  gmg.Slice    `json:"slice"`
	State  string       `json:"state"`
	Steps  int64        `json:"steps"`
	BusyNs int64        `json:"busyNs"`
}

// RequestStatus is a live request as the admin API shows it.
type RequestStatus struct {
	ID           string       `json:"id"`
	Tenant       gmg.TenantID `json:"tenant"`
	State        string       `json:"state"` // waiting, prefill, decode
	PromptTokens int          `json:"promptTokens"`
	OutputTokens int          `json:"outputTokens"`
	CachedTokens int          `json:"cachedTokens"`
	AgeMs        int64        `json:"ageMs"`
}
