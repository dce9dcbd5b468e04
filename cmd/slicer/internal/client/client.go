// Package client talks to a node over HTTP: the admin API for what is there, the OpenAI API for answers.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slicescheduler/actors"
	"slicescheduler/gmg"
)

// DefaultServer is the node that is asked unless another is named.
const DefaultServer = "http://127.0.0.1:7070"

// ErrNoNode is returned when nobody listens.
var ErrNoNode = errors.New("no node")

// Limits of what a node may send.
const (
	maxAnswerBytes = 64 << 20
	dialTimeout    = 5 * time.Second
)

// APIError is a node's refusal.
type APIError struct {
	Status  int
	Message string
}

func (e *APIError) Error() string { return e.Message }

// Client talks to one node.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New returns a client of a node's HTTP address; key is its API key, empty for none.
func New(server, key string) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("server %q is no http or https URL, as in %s", server, DefaultServer)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	return &Client{base: strings.TrimSuffix(server, "/"), key: key, http: &http.Client{Transport: transport}}, nil
}

// do sends a request and returns the answer if it is a success. path is escaped already; body is nil or sent as JSON.
func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "slicer")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, apiError(resp)
	}
	return resp, nil
}

// explain turns a failure to connect into what to do about it.
func (c *Client) explain(ctx context.Context, err error) error {
	var opError *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &opError) && opError.Op == "dial":
		return fmt.Errorf("%w at %s: start one with `slicer up`, or name another with --server", ErrNoNode, c.base)
	}
	return err
}

// apiError reads the message out of an error in OpenAI's form.
func apiError(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	message := strings.TrimSpace(string(data))
	if json.Unmarshal(data, &body) == nil && len(body.Error) > 0 {
		if json.Unmarshal(body.Error, &inner) != nil {
			_ = json.Unmarshal(body.Error, &inner.Message)
		}
		message = inner.Message
	}
	if message == "" {
		message = resp.Status
	}
	if resp.StatusCode == http.StatusUnauthorized {
		message += "; give a key with --api-key or SLICER_API_KEY"
	}
	return &APIError{resp.StatusCode, message}
}

// call sends a request and decodes the answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswerBytes))
		return err
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswerBytes)).Decode(out); err != nil {
		return fmt.Errorf("%s %s%s: answer can't be read: %w", method, c.base, path, err)
	}
	return nil
}

// list fetches a listing, which comes as an object with one field named like the end of the path.
func list[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	var out map[string][]T
	if err := c.call(ctx, http.MethodGet, path, nil, &out); err != nil {
		return nil, err
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	items, found := out[name]
	if !found {
		return nil, fmt.Errorf("GET %s%s: answer has no %q", c.base, path, name)
	}
	return items, nil
}

// Tenants lists all tenants.
func (c *Client) Tenants(ctx context.Context) ([]actors.TenantStatus, error) {
	return list[actors.TenantStatus](ctx, c, "/admin/v1/tenants")
}

// Nodes lists the cluster's nodes.
func (c *Client) Nodes(ctx context.Context) ([]actors.NodeStatus, error) {
	return list[actors.NodeStatus](ctx, c, "/admin/v1/nodes")
}

// Devices lists the devices with their memory.
func (c *Client) Devices(ctx context.Context) ([]actors.DeviceStatus, error) {
	return list[actors.DeviceStatus](ctx, c, "/admin/v1/devices")
}

// Slices lists which run of which tenant's operators is where.
func (c *Client) Slices(ctx context.Context) ([]actors.SliceStatus, error) {
	return list[actors.SliceStatus](ctx, c, "/admin/v1/slices")
}

func tenantPath(t gmg.TenantID) string { return "/admin/v1/tenants/" + url.PathEscape(string(t)) }

// Tenant returns one tenant.
func (c *Client) Tenant(ctx context.Context, t gmg.TenantID) (actors.TenantStatus, error) {
	var out actors.TenantStatus
	err := c.call(ctx, http.MethodGet, tenantPath(t), nil, &out)
	return out, err
}

// SubmitTenant makes a tenant; its model loads in the background.
func (c *Client) SubmitTenant(ctx context.Context, s gmg.TenantSpec) error {
	return c.call(ctx, http.MethodPost, "/admin/v1/tenants", s, nil)
}

// RemoveTenant removes a tenant and ends its requests.
func (c *Client) RemoveTenant(ctx context.Context, t gmg.TenantID) error {
	return c.call(ctx, http.MethodDelete, tenantPath(t), nil, nil)
}

// Keys lists a tenant's API keys.
func (c *Client) Keys(ctx context.Context, t gmg.TenantID) ([]actors.KeyInfo, error) {
	return list[actors.KeyInfo](ctx, c, tenantPath(t)+"/keys")
}

// AddKey makes an API key of a tenant and returns it: the only time that it is seen.
func (c *Client) AddKey(ctx context.Context, t gmg.TenantID, name string) (string, error) {
	var out struct {
		Key string `json:"key"`
	}
	err := c.call(ctx, http.MethodPost, tenantPath(t)+"/keys", map[string]string{"name": name}, &out)
	return out.Key, err
}

// RemoveKey removes one of a tenant's keys by its name.
func (c *Client) RemoveKey(ctx context.Context, t gmg.TenantID, name string) error {
	return c.call(ctx, http.MethodDelete, tenantPath(t)+"/keys/"+url.PathEscape(name), nil, nil)
}
