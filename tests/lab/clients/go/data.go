package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 100

var dataPlays = map[string]func(work){
	"produce":             produce,
	"consume-assigned":    consumeAssigned,
	"group-classic":       group,
	"group-consumer":      group,
	"transaction":         transaction,
	"transaction-offsets": transactionOffsets,
	"denied":              denied,
}

func values(many int) []string {
	var all []string
	for n := range many {
		all = append(all, fmt.Sprintf("value %d of a record", n))
	}
	return all
}

func (w work) topic(partitions int32, suffix string) string {
	admin, done := w.admin()
	defer done()
	name := w.name + suffix
	got(admin.CreateTopic(w.ctx, partitions, 1, nil, name))
	until(func() bool { return got(admin.ListTopics(w.ctx)).Has(name) })
	return name
}

func (w work) send(client *kgo.Client, topic string, partition int32, what []string) {
	var records []*kgo.Record
	for _, value := range what {
		records = append(records, &kgo.Record{
			Topic: topic, Partition: partition, Key: []byte("key"), Value: []byte(value),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}},
		})
	}
	must(client.ProduceSync(w.ctx, records...).FirstErr())
}

func (w work) deliver(topic string, partition int32, more ...kgo.Opt) {
	client := w.client(more...)
	defer client.Close()
	w.send(client, topic, partition, values(count))
}

func denied(w work) {
	topic := w.topic(1, "-other")
	client := w.client()
	defer client.Close()
	send := func(to string) error {
		return client.ProduceSync(w.ctx, &kgo.Record{Topic: to, Value: []byte("one")}).FirstErr()
	}
	must(send(topic))
	err := send(w.name)
	check(errors.Is(err, kerr.TopicAuthorizationFailed), err)
	must(send(topic))
	err = got(kadm.NewClient(client).UpdatePartitions(w.ctx, 4, w.name)).Error()
	check(errors.Is(err, kerr.TopicAuthorizationFailed), err)
}

func (w work) take(client *kgo.Client, many int) []*kgo.Record {
	var taken []*kgo.Record
	for len(taken) < many {
		fetches := client.PollFetches(w.ctx)
		must(fetches.Err())
		taken = append(taken, fetches.Records()...)
	}
	return taken
}

func from(topic string, offsets map[int32]int64) kgo.Opt {
	parts := map[int32]kgo.Offset{}
	for partition, offset := range offsets {
		parts[partition] = kgo.NewOffset().At(offset)
	}
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: parts})
}

func (w work) read(topic string, many int, more ...kgo.Opt) []*kgo.Record {
	client := w.client(append(more, from(topic, map[int32]int64{0: 0}))...)
	defer client.Close()
	return w.take(client, many)
}

func same(records []*kgo.Record, wanted []string) {
	check(len(records) == len(wanted), len(records), " records, not ", len(wanted))
	for n, record := range records {
		check(string(record.Value) == wanted[n], string(record.Value), " is not ", wanted[n])
	}
}

func produce(w work) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"all": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()}
	options := []kgo.Opt{kgo.ProducerBatchCompression(codecs[w.Compression]), kgo.RequiredAcks(acks[w.Acks])}
	if !w.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	topic := w.topic(1, "")
	w.deliver(topic, 0, options...)
	same(w.read(topic, count), values(count))
}

func consumeAssigned(w work) {
	topic := w.topic(2, "")
	w.deliver(topic, 0)
	w.deliver(topic, 1)
	client := w.client(from(topic, map[int32]int64{0: 90, 1: 95}))
	defer client.Close()
	next := map[int32]int64{0: 90, 1: 95}
	for _, record := range w.take(client, 15) {
		check(record.Offset == next[record.Partition], record.Partition, "@", record.Offset)
		next[record.Partition]++
	}
}

func (w work) member(topic string) *kgo.Client {
	options := []kgo.Opt{
		kgo.ConsumerGroup(w.name + "-group"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(500 * time.Millisecond), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
	}
	if w.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	return w.client(options...)
}

func (w work) assigned(client *kgo.Client, topic string) int {
	ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
	defer cancel()
	client.PollFetches(ctx)
	return len(client.CommittedOffsets()[topic])
}

// members tells how many partitions each member has, by the group's coordinator.
func (w work) members(admin *kadm.Client) []int {
	var parts []int
	if w.Protocol == "consumer" {
		for _, member := range got(admin.DescribeConsumerGroups(w.ctx, w.name+"-group"))[w.name+"-group"].Members {
			parts = append(parts, total(member.Assignment))
		}
		return parts
	}
	for _, member := range got(admin.DescribeGroups(w.ctx, w.name+"-group"))[w.name+"-group"].Members {
		assigned, _ := member.Assigned.AsConsumer()
		parts = append(parts, 0)
		if assigned != nil {
			for _, topic := range assigned.Topics {
				parts[len(parts)-1] += len(topic.Partitions)
			}
		}
	}
	return parts
}

func total(topics kadm.TopicsSet) int {
	many := 0
	for _, partitions := range topics {
		many += len(partitions)
	}
	return many
}

func group(w work) {
	topic := w.topic(4, "")
	admin, done := w.admin()
	defer done()
	var offsets kadm.Offsets
	for partition := range int32(4) {
		w.deliver(topic, partition)
		offsets.AddOffset(topic, partition, 60, -1)
	}
	first, second := w.member(topic), w.member(topic)
	until(func() bool {
		w.assigned(first, topic)
		w.assigned(second, topic)
		return fmt.Sprint(w.members(admin)) == "[2 2]"
	})
	second.Close()
	until(func() bool {
		w.assigned(first, topic)
		return fmt.Sprint(w.members(admin)) == "[4]"
	})
	must(first.CommitMarkedOffsets(w.ctx))
	first.Close()
	must(admin.CommitAllOffsets(w.ctx, w.name+"-group", offsets))
	third := w.member(topic)
	defer third.Close()
	next := map[int32]int64{0: 60, 1: 60, 2: 60, 3: 60}
	for _, record := range w.take(third, 4*40) {
		check(record.Offset == next[record.Partition], record.Partition, "@", record.Offset)
		next[record.Partition]++
	}
	must(third.CommitUncommittedOffsets(w.ctx))
	committed := got(admin.FetchOffsets(w.ctx, w.name+"-group"))
	for partition := range int32(4) {
		at, _ := committed.Lookup(topic, partition)
		check(at.At == count, "committed ", at.At)
	}
}

func transaction(w work) {
	topic := w.topic(1, "")
	client := w.client(kgo.TransactionalID(w.name + "-id"))
	defer client.Close()
	must(client.BeginTransaction())
	w.send(client, topic, 0, values(count))
	many := count
	if w.Commits {
		must(client.EndTransaction(w.ctx, kgo.TryCommit))
	} else {
		many = 5
		must(client.EndTransaction(w.ctx, kgo.TryAbort))
		must(client.BeginTransaction())
		w.send(client, topic, 0, values(many))
		must(client.EndTransaction(w.ctx, kgo.TryCommit))
	}
	taken := w.read(topic, many, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	same(taken, values(many))
	check(w.Commits == (taken[0].Offset == 0), "the first is at ", taken[0].Offset)
}

func transactionOffsets(w work) {
	source, target := w.topic(1, "-in"), w.topic(1, "-out")
	w.deliver(source, 0)
	session := got(kgo.NewGroupTransactSession(w.options(
		kgo.TransactionalID(w.name+"-id"), kgo.ConsumerGroup(w.name+"-group"), kgo.ConsumeTopics(source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))...))
	taken := 0
	for taken < count {
		fetches := session.PollFetches(w.ctx)
		must(fetches.Err())
		must(session.Begin())
		for _, record := range fetches.Records() {
			session.Produce(w.ctx, &kgo.Record{Topic: target, Value: record.Value}, func(_ *kgo.Record, err error) {
				must(err)
			})
			taken++
		}
		committed := got(session.End(w.ctx, kgo.TryCommit))
		check(committed, "not committed")
	}
	session.Close()
	same(w.read(target, count, kgo.FetchIsolationLevel(kgo.ReadCommitted())), values(count))
	admin, done := w.admin()
	defer done()
	at, _ := got(admin.FetchOffsets(w.ctx, w.name+"-group")).Lookup(source, 0)
	check(at.At == count, "committed ", at.At)
}
