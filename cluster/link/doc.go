// Package link carries messages between nodes: framed, in order, over one connection for each direction, with mutual TLS where the cluster has a secret.
//
// A Session is one connection. Within it no message is lost, repeated or reordered; when it ends, both ends are told and what was under way is gone, so whoever
// needs more keeps what it sent and sends it again on the next session. A Hub accepts sessions and keeps one to each node that it was asked to send to, dialling
// again for as long as the node's address is known. A peer that answers nothing for Timing.Silence is given up, whether its process hangs or its packets vanish.
//
// On the wire a session begins with a hello from the dialler, answered by a hello or a refusal in words; then frames follow: length (4 bytes, big-endian, of what comes
// after it), kind (1 byte), body. Kind 0 says only that the sender is there.
package link
