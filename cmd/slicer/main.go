// Command slicer serves many tenants' language models on shared accelerators.
package main

import (
	"context"
	"os"
	"time"

	"slicescheduler/cmd/slicer/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], cli.StandardStreams(time.Now())))
}
