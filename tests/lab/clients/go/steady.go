// A producer or a consumer that goes on until standard input ends, for tests/lab/rolling: one process each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// steadyOrder is the first line of standard input.
type steadyOrder struct {
	Login login
	Topic string
}

// steady sends the numbers on standard input, a line each, or consumes as a group of the topic's name. Each
// line that it prints is a word and what it is about: acknowledged, consumed, error or retried.
func steady(does string) {
	in := bufio.NewScanner(os.Stdin)
	check(in.Scan(), "no order on standard input")
	var asked steadyOrder
	must(json.Unmarshal(in.Bytes(), &asked))
	w := work{login: asked.Login, ctx: context.Background()}
	// As deploy/README.md advises; all else is the client's default.
	soon := kgo.MetadataMinAge(time.Second)
	log := kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil))
	if does == "send" {
		send(w.client(log, soon, kgo.DefaultProduceTopic(asked.Topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner())), in)
		return
	}
	client := w.client(log, soon, kgo.ConsumeTopics(asked.Topic), kgo.ConsumerGroup(asked.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, over := context.WithCancel(context.Background())
	go func() {
		for in.Scan() {
		}
		over()
	}()
	take(ctx, client)
}

func send(client *kgo.Client, numbers *bufio.Scanner) {
	var printing sync.Mutex
	for numbers.Scan() {
		number := numbers.Text()
		client.Produce(context.Background(), kgo.StringRecord(number), func(_ *kgo.Record, err error) {
			printing.Lock()
			defer printing.Unlock()
			if err != nil {
				fmt.Println("error", number, err)
			} else {
				fmt.Println("acknowledged", number)
			}
		})
	}
	must(client.Flush(context.Background()))
	client.Close()
}

func take(ctx context.Context, client *kgo.Client) {
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			var session *kgo.ErrGroupSession
			switch {
			case ctx.Err() != nil:
			case errors.As(failed.Err, &session): // Documented as informative: the client joins again by itself.
				fmt.Println("retried", session.Err)
			default:
				fmt.Println("error", failed.Partition, failed.Err)
			}
		}
		fetches.EachRecord(func(record *kgo.Record) { fmt.Println("consumed", string(record.Value)) })
	}
	client.Close()
}
