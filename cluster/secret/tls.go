package secret

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Times of certificates. A node's own is valid from skew before it is minted, so that clocks may differ by that much, and minted anew at half its age.
const (
	certificateSkew = 48 * time.Hour
	certificateLife = 30 * 24 * time.Hour
)

// ErrPeer is a peer whose certificate doesn't show that it knows a valid secret of this cluster.
var ErrPeer = errors.New("peer is not of this cluster")

// authority returns the secret's certificate authority: an Ed25519 key pair and a certificate that are the same wherever they are made.
func (s Secret) authority(cluster string) (ed25519.PrivateKey, *x509.Certificate, error) {
	key := ed25519.NewKeyFromSeed(s.derive("authority "+cluster, ed25519.SeedSize))
	id := s.derive("authority id "+cluster, fingerBytes)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "slicer cluster " + hex.EncodeToString(id)}, SubjectKeyId: id,
		NotBefore: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key) // Ed25519 signs without random numbers
	if err != nil {
		return nil, nil, fmt.Errorf("certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return key, cert, err
}

// serverName is what every certificate of a cluster is for. Nodes are dialled by addresses that change; what counts is the cluster.
func serverName(cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return hex.EncodeToString(sum[:fingerBytes]) + ".slicer.internal"
}

// mint makes a node's certificate, for both ends of a connection.
func (s Secret) mint(cluster, node string, now time.Time) (*tls.Certificate, error) {
	signer, parent, err := s.authority(cluster)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("node key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: node}, DNSNames: []string{serverName(cluster)},
		NotBefore: now.Add(-certificateSkew), NotAfter: now.Add(certificateLife), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("node certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// credentials are what follows from the secrets that are valid now.
type credentials struct {
	keys    Keys
	roots   *x509.CertPool
	minted  *tls.Certificate // of the secret in use
	renewAt time.Time
}

// Identity is a node's side of mutual TLS: its certificate and whom it believes. Secrets may change under live tls.Configs; connections that stand keep
// what they were made with.
type Identity struct {
	cluster, node string
	now           func() time.Time
	changing      sync.Mutex
	current       atomic.Pointer[credentials]
}

// NewIdentity mints a node's certificate. now is the wall clock, nil for the system's.
func NewIdentity(cluster, node string, keys Keys, now func() time.Time) (*Identity, error) {
	if now == nil {
		now = time.Now
	}
	id := &Identity{cluster: cluster, node: node, now: now}
	return id, id.SetKeys(keys)
}

// SetKeys changes the valid secrets for all connections that are made from now on.
func (id *Identity) SetKeys(keys Keys) error {
	id.changing.Lock()
	defer id.changing.Unlock()
	return id.set(keys)
}

// set needs the lock.
func (id *Identity) set(keys Keys) error {
	if err := keys.Validate(); err != nil {
		return err
	}
	now := id.now()
	c := &credentials{keys: keys, roots: x509.NewCertPool(), renewAt: now.Add(certificateLife / 2)}
	for _, s := range keys {
		_, root, err := s.authority(id.cluster)
		if err != nil {
			return err
		}
		c.roots.AddCert(root)
	}
	minted, err := keys[0].mint(id.cluster, id.node, now)
	if err != nil {
		return err
	}
	c.minted = minted
	id.current.Store(c)
	return nil
}

// certificate returns the node's certificate, minted anew once it is half its life old.
func (id *Identity) certificate() (*tls.Certificate, error) {
	c := id.current.Load()
	if id.now().Before(c.renewAt) {
		return c.minted, nil
	}
	id.changing.Lock()
	defer id.changing.Unlock()
	if c = id.current.Load(); id.now().Before(c.renewAt) {
		return c.minted, nil
	}
	if err := id.set(c.keys); err != nil {
		return nil, err
	}
	return id.current.Load().minted, nil
}

// Server returns the configuration for accepting connections from nodes of the cluster, and from nobody else.
func (id *Identity) Server() *tls.Config {
	c := id.base()
	c.ClientAuth = tls.RequireAnyClientCert // verify does the rest, with the roots of the moment
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return id.certificate() }
	c.VerifyConnection = func(s tls.ConnectionState) error { return id.verify(s, x509.ExtKeyUsageClientAuth) }
	return c
}

// Client returns the configuration for dialling nodes of the cluster, whatever their addresses.
func (id *Identity) Client() *tls.Config {
	c := id.base()
	c.ServerName = serverName(id.cluster)
	c.InsecureSkipVerify = true // the library's check can't follow a rotation; verify is as strict, with the roots of the moment
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return id.certificate() }
	c.VerifyConnection = func(s tls.ConnectionState) error { return id.verify(s, x509.ExtKeyUsageServerAuth) }
	return c
}

func (id *Identity) base() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, Time: id.now}
}

// verify believes a peer whose certificate chains to the authority of a secret that is valid now and is for this cluster.
func (id *Identity) verify(s tls.ConnectionState, usage x509.ExtKeyUsage) error {
	if len(s.PeerCertificates) == 0 {
		return fmt.Errorf("%w: it has no certificate", ErrPeer)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: id.current.Load().roots, CurrentTime: id.now(), DNSName: serverName(id.cluster), KeyUsages: []x509.ExtKeyUsage{usage},
	})
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("%w: its certificate is of another time, so a clock is off by days: %w", ErrPeer, err)
	}
	if err != nil {
		return fmt.Errorf("%w: it doesn't know this cluster's secret (compare slicer secret show): %w", ErrPeer, err)
	}
	return nil
}

// PeerName returns the node that a verified connection's other end says it is.
func PeerName(s tls.ConnectionState) string {
	if len(s.PeerCertificates) == 0 {
		return ""
	}
	return strings.ToValidUTF8(s.PeerCertificates[0].Subject.CommonName, "?")
}
