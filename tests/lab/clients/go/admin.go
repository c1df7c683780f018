package main

import (
	"errors"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type call func(work, *kadm.Client)

var adminPlays = map[string]func(work){
	"topics":              with(topics),
	"partitions":          with(partitions),
	"configs":             with(configs),
	"incremental-configs": with(incrementalConfigs),
	"acls":                with(acls),
	"quotas":              with(quotas),
	"scram":               with(scramUsers),
	"groups":              with(groups),
	"offsets":             with(offsets),
	"delete-records":      with(deleteRecords),
	"list-offsets":        with(listOffsets),
	"cluster":             with(cluster),
	"elections":           with(elections),
	"log-dirs":            with(logDirs),
	"producers":           with(producers),
	"transactions":        with(transactions),
	"reassignments":       with(reassignments),
}

func with(of call) func(work) {
	return func(w work) {
		admin, done := w.admin()
		defer done()
		of(w, admin)
	}
}

func (w work) filled() string {
	topic := w.topic(1, "")
	w.deliver(topic, 0)
	return topic
}

func one(topic string) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	return set
}

func topics(w work, admin *kadm.Client) {
	name := w.topic(3, "")
	told := got(admin.ListTopics(w.ctx, name))[name]
	check(len(told.Partitions) == 3, told)
	got(admin.DeleteTopic(w.ctx, name))
	until(func() bool { return !got(admin.ListTopics(w.ctx)).Has(name) })
}

func partitions(w work, admin *kadm.Client) {
	name := w.topic(1, "")
	must(got(admin.UpdatePartitions(w.ctx, 4, name)).Error())
	until(func() bool { return len(got(admin.ListTopics(w.ctx, name))[name].Partitions) == 4 })
}

func (w work) retention(admin *kadm.Client, topic string) string {
	described := got(got(admin.DescribeTopicConfigs(w.ctx, topic)).On(topic, nil))
	for _, config := range described.Configs {
		if config.Key == "retention.ms" {
			return config.MaybeValue()
		}
	}
	return ""
}

func configs(w work, admin *kadm.Client) {
	name := w.topic(1, "")
	wanted := []kadm.AlterConfig{{Name: "retention.ms", Value: kadm.StringPtr("86400000")}}
	must(got(got(admin.AlterTopicConfigsState(w.ctx, wanted, name)).On(name, nil)).Err)
	until(func() bool { return w.retention(admin, name) == "86400000" })
}

func incrementalConfigs(w work, admin *kadm.Client) {
	name := w.topic(1, "")
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("3600000")}}
	must(got(got(admin.AlterTopicConfigs(w.ctx, set, name)).On(name, nil)).Err)
	until(func() bool { return w.retention(admin, name) == "3600000" })
	remove := []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "retention.ms"}}
	must(got(got(admin.AlterTopicConfigs(w.ctx, remove, name)).On(name, nil)).Err)
	until(func() bool { return w.retention(admin, name) == "604800000" })
}

func acls(w work, admin *kadm.Client) {
	principal := "User:" + w.name
	wanted := kadm.NewACLs().Topics(w.name).ResourcePatternType(kadm.ACLPatternPrefixed).
		Allow(principal).AllowHosts("*").Operations(kadm.OpRead)
	matching := kadm.NewACLs().Topics(w.name + "-x").ResourcePatternType(kadm.ACLPatternMatch).
		Allow(principal).AllowHosts().Deny().DenyHosts().Operations()
	for _, made := range got(admin.CreateACLs(w.ctx, wanted)) {
		must(made.Err)
	}
	until(func() bool { return described(w, admin, matching) == 1 })
	deleted := 0
	for _, result := range got(admin.DeleteACLs(w.ctx, matching)) {
		must(result.Err)
		deleted += len(result.Deleted)
	}
	check(deleted == 1, deleted, " deleted")
	until(func() bool { return described(w, admin, matching) == 0 })
}

func described(w work, admin *kadm.Client, wanted *kadm.ACLBuilder) int {
	found := 0
	for _, result := range got(admin.DescribeACLs(w.ctx, wanted)) {
		must(result.Err)
		found += len(result.Described)
	}
	return found
}

func quotas(w work, admin *kadm.Client) {
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: &w.name}}
	filter := []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: &w.name, MatchType: kmsg.QuotasMatchTypeExact}}
	for _, remove := range []bool{false, true} {
		op := kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 1e6, Remove: remove}
		entry := kadm.AlterClientQuotaEntry{Entity: entity, Ops: []kadm.AlterClientQuotaOp{op}}
		for _, altered := range got(admin.AlterClientQuotas(w.ctx, []kadm.AlterClientQuotaEntry{entry})) {
			must(altered.Err)
		}
		until(func() bool { return (len(got(admin.DescribeClientQuotas(w.ctx, false, filter))) == 0) == remove })
	}
}

func scramUsers(w work, admin *kadm.Client) {
	upsert := kadm.UpsertSCRAM{User: w.name, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "secret"}
	must(got(admin.AlterUserSCRAMs(w.ctx, nil, []kadm.UpsertSCRAM{upsert})).Error())
	until(func() bool { return w.credentials(admin) == 1 })
	gone := kadm.DeleteSCRAM{User: w.name, Mechanism: kadm.ScramSha512}
	must(got(admin.AlterUserSCRAMs(w.ctx, []kadm.DeleteSCRAM{gone}, nil)).Error())
	until(func() bool { return w.credentials(admin) == 0 })
}

func (w work) credentials(admin *kadm.Client) int {
	told := got(admin.DescribeUserSCRAMs(w.ctx, w.name))[w.name]
	check(told.Err == nil || errors.Is(told.Err, kerr.ResourceNotFound), told.Err)
	return len(told.CredInfos)
}

// consumed gives a group that has read all, committed less, and gone.
func (w work) consumed(admin *kadm.Client, topic string) string {
	name := w.name + "-group"
	reader := w.client(kgo.ConsumerGroup(name), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	w.take(reader, count)
	must(reader.CommitRecords(w.ctx, &kgo.Record{Topic: topic, Partition: 0, Offset: 39, LeaderEpoch: -1}))
	reader.Close()
	return name
}

func groups(w work, admin *kadm.Client) {
	name := w.consumed(admin, w.filled())
	check(len(got(admin.ListGroups(w.ctx))[name].Group) > 0, "not listed")
	until(func() bool { return got(admin.DescribeGroups(w.ctx, name))[name].State == "Empty" })
	must(got(admin.DeleteGroup(w.ctx, name)).Err)
	check(got(admin.ListGroups(w.ctx))[name].Group == "", "still listed")
}

func (w work) committed(admin *kadm.Client, group, topic string) int64 {
	at, found := got(admin.FetchOffsets(w.ctx, group)).Lookup(topic, 0)
	if !found {
		return -1
	}
	return at.At
}

func offsets(w work, admin *kadm.Client) {
	topic := w.filled()
	group := w.consumed(admin, topic)
	check(w.committed(admin, group, topic) == 40, w.committed(admin, group, topic))
	var reset kadm.Offsets
	reset.AddOffset(topic, 0, 7, -1)
	must(admin.CommitAllOffsets(w.ctx, group, reset))
	check(w.committed(admin, group, topic) == 7, "not reset")
	must(got(admin.DeleteOffsets(w.ctx, group, one(topic))).Error())
	check(w.committed(admin, group, topic) == -1, "not deleted")
}

func deleteRecords(w work, admin *kadm.Client) {
	topic := w.filled()
	var before kadm.Offsets
	before.AddOffset(topic, 0, 30, -1)
	deleted := got(admin.DeleteRecords(w.ctx, before))
	must(deleted.Error())
	check(deleted[topic][0].LowWatermark == 30, deleted)
}

func listOffsets(w work, admin *kadm.Client) {
	topic := w.filled()
	start, _ := got(admin.ListStartOffsets(w.ctx, topic)).Lookup(topic, 0)
	end, _ := got(admin.ListEndOffsets(w.ctx, topic)).Lookup(topic, 0)
	stable, _ := got(admin.ListCommittedOffsets(w.ctx, topic)).Lookup(topic, 0)
	after, _ := got(admin.ListOffsetsAfterMilli(w.ctx, 1, topic)).Lookup(topic, 0)
	check(start.Offset == 0 && end.Offset == count && stable.Offset == count && after.Offset == 0,
		start, end, stable, after)
}

func cluster(w work, admin *kadm.Client) {
	told := got(admin.BrokerMetadata(w.ctx))
	check(told.Cluster != "" && len(told.Brokers) == 1, told)
	broker := told.Brokers[0]
	check(addressOf(broker) == w.login.Bootstrap, addressOf(broker))
}

func elections(w work, admin *kadm.Client) {
	topic := w.topic(1, "")
	told := got(admin.ElectLeaders(w.ctx, kadm.ElectPreferredReplica, one(topic)))[topic][0]
	check(errors.Is(told.Err, kerr.ElectionNotNeeded), told)
}

func logDirs(w work, admin *kadm.Client) {
	topic := w.filled()
	found := false
	for _, dirs := range got(admin.DescribeAllLogDirs(w.ctx, one(topic))) {
		must(dirs.Error())
		part, there := dirs.LookupPartition(topic, 0)
		found = found || (there && part.Size > 0)
	}
	check(found, topic, " is in no log dir")
}

func producers(w work, admin *kadm.Client) {
	topic := w.filled()
	told := got(admin.DescribeProducers(w.ctx, one(topic)))[topic].Partitions[0]
	must(told.Err)
	check(len(told.ActiveProducers) == 1, told)
	told.ActiveProducers.Each(func(p kadm.DescribedProducer) { check(p.LastSequence == count-1, p) })
}

func transactions(w work, admin *kadm.Client) {
	topic, id := w.topic(1, ""), w.name+"-id"
	client := w.client(kgo.TransactionalID(id))
	defer client.Close()
	must(client.BeginTransaction())
	w.send(client, topic, 0, values(1))
	_, listed := got(admin.ListTransactions(w.ctx, nil, nil))[id]
	check(listed, "not listed")
	told := got(admin.DescribeTransactions(w.ctx, id))[id]
	must(told.Err)
	check(told.Topics.Lookup(topic, 0), told)
	must(client.EndTransaction(w.ctx, kgo.TryAbort))
}

func reassignments(w work, admin *kadm.Client) {
	topic := w.topic(1, "")
	var wanted kadm.AlterPartitionAssignmentsReq
	wanted.Assign(topic, 0, []int32{1})
	must(got(admin.AlterPartitionAssignments(w.ctx, wanted)).Error())
	check(len(got(admin.ListPartitionReassignments(w.ctx, one(topic)))) == 0, "still under way")
}

func addressOf(broker kadm.BrokerDetail) string {
	return net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
}
