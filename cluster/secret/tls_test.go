package secret

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func identity(t *testing.T, cluster, node string, now time.Time, keys ...Secret) *Identity {
	t.Helper()
	id, err := NewIdentity(cluster, node, keys, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// shake connects two ends over loopback and lets each send the other a byte.
func shake(t *testing.T, server, client *tls.Config) (peer string, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	exchange := func(c *tls.Conn) error {
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return err
		}
		if err := c.Handshake(); err != nil {
			return err
		}
		if _, err := c.Write([]byte{1}); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	done := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		done <- exchange(tls.Server(raw, server))
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, client)
	clientErr = exchange(c)
	return PeerName(c.ConnectionState()), <-done, clientErr
}

func TestNodesOfAClusterTrustEachOther(t *testing.T) {
	s := New()
	now := time.Now()
	a, b := identity(t, "prod", "a", now, s), identity(t, "prod", "b", now.Add(time.Hour), s)
	peer, serverErr, clientErr := shake(t, a.Server(), b.Client())
	if serverErr != nil || clientErr != nil || peer != "a" {
		t.Errorf("%v, %v, peer %q", serverErr, clientErr, peer)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	s := New()
	now := time.Now()
	member := identity(t, "prod", "a", now, s)
	for name, c := range map[string]struct {
		client *tls.Config
		hint   string
	}{
		"other secret":   {identity(t, "prod", "b", now, New()).Client(), "secret show"},
		"other cluster":  {identity(t, "test", "b", now, s).Client(), "secret show"},
		"no certificate": {&tls.Config{InsecureSkipVerify: true}, "certificate"},
		"other time":     {identity(t, "prod", "b", now.AddDate(0, -2, 0), s).Client(), "clock"},
	} {
		_, serverErr, clientErr := shake(t, member.Server(), c.client)
		if serverErr == nil || clientErr == nil && name != "no certificate" {
			t.Errorf("%s was let in: %v, %v", name, serverErr, clientErr)
		} else if !strings.Contains(serverErr.Error()+clientErrText(clientErr), c.hint) {
			t.Errorf("%s: no hint of %s in %v, %v", name, c.hint, serverErr, clientErr)
		}
	}
	stranger := identity(t, "prod", "x", now, New())
	if _, _, clientErr := shake(t, stranger.Server(), member.Client()); !errors.Is(clientErr, ErrPeer) {
		t.Errorf("a member believed a server without the secret: %v", clientErr)
	}
}

func clientErrText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// During a rotation any two nodes that are at most one phase apart accept each other, without new tls.Configs.
func TestRotationWithoutRestart(t *testing.T) {
	old, next := New(), New()
	now := time.Now()
	a, b := identity(t, "prod", "a", now, old), identity(t, "prod", "b", now, old)
	aServer, aClient, bServer, bClient := a.Server(), a.Client(), b.Server(), b.Client()
	for i, keys := range []Keys{{old, next}, {next, old}, {next}} {
		for _, id := range []*Identity{a, b} {
			if err := id.SetKeys(keys); err != nil {
				t.Fatal(err)
			}
			if _, s, c := shake(t, aServer, bClient); s != nil || c != nil {
				t.Errorf("phase %d, %s ahead: %v, %v", i, id.node, s, c)
			}
			if _, s, c := shake(t, bServer, aClient); s != nil || c != nil {
				t.Errorf("phase %d, %s ahead: %v, %v", i, id.node, s, c)
			}
		}
	}
	late := identity(t, "prod", "late", now, old)
	if _, s, _ := shake(t, aServer, late.Client()); s == nil {
		t.Error("the old secret still lets in")
	}
}

func TestCertificatesAreRenewed(t *testing.T) {
	now := time.Now()
	id, err := NewIdentity("prod", "a", Keys{New()}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	first, err := id.certificate()
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(certificateLife/2 + time.Hour)
	second, err := id.certificate()
	if err != nil {
		t.Fatal(err)
	}
	if first == second || !second.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Error("the certificate was not renewed at half its life")
	}
	if third, err := id.certificate(); err != nil || third != second {
		t.Errorf("it is renewed all the time: %v", err)
	}
}
