// Package protocol holds the actors' messages. They are protobuf so that each can cross nodes; between actors of one node they travel as pointers and are
// never encoded. A message belongs to its receiver once sent.
package protocol

//go:generate sh -c "go build -o ${TMPDIR:-/tmp}/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go && protoc --plugin=${TMPDIR:-/tmp}/protoc-gen-go --go_out=. --go_opt=paths=source_relative protocol.proto"
