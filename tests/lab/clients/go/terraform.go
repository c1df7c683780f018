//go:build terraform

// What Terraform's Kafka provider (Mongey/kafka) does for a resource of each kind, through sarama as it does: create, read,
// update, delete, import. It reads what it has written again and again, so the transcript has each response.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

func init() {
	adminPlays["terraform-topic"] = terraformTopic
	adminPlays["terraform-acl"] = terraformAcl
	adminPlays["terraform-quota"] = terraformQuota
	adminPlays["terraform-scram"] = terraformScram
}

// The provider's own adapter of SCRAM for sarama.
type conversation struct{ *scram.ClientConversation }

func (c *conversation) Begin(user, password, authorizationID string) (err error) {
	client, err := scram.SHA512.NewClient(user, password, authorizationID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

// connected gives the broker that Metadata names as the controller; the provider sends everything there.
func (w work) connected() (sarama.Client, *sarama.Broker) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_7_0_0 // The provider's default.
	config.Metadata.Retry.Max = 0    // `until` looks again.
	config.Metadata.AllowAutoTopicCreation = false
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA512
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{} }
	config.Net.SASL.User, config.Net.SASL.Password = w.login.User, w.login.Password
	if w.login.Ca != nil {
		pool := x509.NewCertPool()
		check(pool.AppendCertsFromPEM(got(os.ReadFile(*w.login.Ca))), "no certificate in ", *w.login.Ca)
		config.Net.TLS.Enable, config.Net.TLS.Config = true, &tls.Config{RootCAs: pool}
	}
	client := got(sarama.NewClient(strings.Split(w.login.Bootstrap, ","), config))
	return client, got(client.Controller())
}

func text(pointer *string) string {
	if pointer == nil {
		return "none"
	}
	return *pointer
}

func terraformTopic(w work) {
	client, broker := w.connected()
	defer client.Close()
	create := func(partitions int32, config map[string]*string) {
		detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: config}
		told := got(broker.CreateTopics(&sarama.CreateTopicsRequest{
			Version: 3, Timeout: patience, TopicDetails: map[string]*sarama.TopicDetail{w.name: detail},
		})).TopicErrors[w.name]
		w.saw("create", int16(told.Err), text(told.ErrMsg))
	}
	alter := func(config map[string]*string) {
		resource := &sarama.AlterConfigsResource{Type: sarama.TopicResource, Name: w.name, ConfigEntries: config}
		for _, told := range got(broker.AlterConfigs(&sarama.AlterConfigsRequest{
			Version: 1, Resources: []*sarama.AlterConfigsResource{resource},
		})).Resources {
			w.saw("alter", told.ErrorCode, told.ErrorMsg, told.Type, told.Name)
		}
	}
	grow := func(count int32) {
		told := got(broker.CreatePartitions(&sarama.CreatePartitionsRequest{
			Version: 1, Timeout: patience,
			TopicPartitions: map[string]*sarama.TopicPartition{w.name: {Count: count}},
		})).TopicPartitionErrors[w.name]
		w.saw("grow", int16(told.Err), text(told.ErrMsg))
	}
	remove := func() {
		told := got(broker.DeleteTopics(&sarama.DeleteTopicsRequest{
			Version: 3, Timeout: patience, Topics: []string{w.name},
		})).TopicErrorCodes[w.name]
		w.saw("delete", int16(told))
	}
	// Those of the topic: the provider leaves out the brokers', which differ between two clusters.
	configs := func() (lines []string) {
		for _, resource := range got(broker.DescribeConfigs(&sarama.DescribeConfigsRequest{
			Version: 2, Resources: []*sarama.ConfigResource{{Type: sarama.TopicResource, Name: w.name}},
		})).Resources {
			for _, config := range resource.Configs {
				if config.Source == sarama.SourceTopic {
					lines = append(lines, fmt.Sprint(config.Name, config.Value, config.ReadOnly, config.Sensitive, config.Default))
				}
			}
		}
		slices.Sort(lines)
		return lines
	}
	// The provider, too, waits until it reads what it has written.
	read := func(partitions, ownConfigs int) {
		until(func() bool {
			return client.RefreshMetadata(w.name) == nil &&
				len(got(client.Partitions(w.name))) == partitions && len(configs()) == ownConfigs
		})
		var replicas []int
		for _, partition := range got(client.Partitions(w.name)) {
			replicas = append(replicas, len(got(client.Replicas(w.name, partition))))
		}
		w.saw("read", replicas, configs())
	}
	day, hour, wrong := "86400000", "3600000", "none"
	create(2, map[string]*string{"cleanup.policy": nil})
	create(2, map[string]*string{"retention.ms": &day})
	read(2, 1)
	create(2, nil)
	alter(map[string]*string{"retention.ms": &hour, "max.message.bytes": &day})
	grow(5)
	read(5, 2)
	alter(map[string]*string{"retention.ms": &wrong})
	alter(map[string]*string{"no.such.config": &hour})
	alter(nil) // All back to the defaults.
	grow(3)
	read(5, 0)
	reassignments := &sarama.ListPartitionReassignmentsRequest{TimeoutMs: 30_000}
	reassignments.AddBlock(w.name, []int32{0, 1, 2, 3, 4})
	moving := got(broker.ListPartitionReassignments(reassignments))
	w.saw("moving", int16(moving.ErrorCode), moving.TopicStatus)
	remove()
	until(func() bool { return client.RefreshMetadata(w.name) != nil })
	w.saw("read", client.RefreshMetadata(w.name))
	remove()
	alter(map[string]*string{"retention.ms": &hour})
	grow(9)
}

func terraformAcl(w work) {
	client, broker := w.connected()
	defer client.Close()
	principal := "User:" + w.name
	acl := func(host string, operation sarama.AclOperation, permission sarama.AclPermissionType) sarama.Acl {
		return sarama.Acl{Principal: principal, Host: host, Operation: operation, PermissionType: permission}
	}
	create := func(acls ...*sarama.AclCreation) {
		told, err := broker.CreateAcls(&sarama.CreateAclsRequest{Version: 1, AclCreations: acls})
		if told == nil { // With an ACL that was rejected there is an error, too.
			panic(err)
		}
		for _, each := range told.AclCreationResponses {
			w.saw("create", int16(each.Err), text(each.ErrMsg))
		}
	}
	// An import finds a resource in the list of all ACLs of its type.
	all := func() (lines []string) {
		for _, resource := range []sarama.AclResourceType{sarama.AclResourceTopic, sarama.AclResourceGroup, sarama.AclResourceCluster} {
			told := got(broker.DescribeAcls(&sarama.DescribeAclsRequest{Version: 1, AclFilter: sarama.AclFilter{
				ResourceType: resource, ResourcePatternTypeFilter: sarama.AclPatternAny,
				PermissionType: sarama.AclPermissionAny, Operation: sarama.AclOperationAny,
			}}))
			check(told.Err == sarama.ErrNoError, told.Err, text(told.ErrMsg))
			for _, each := range told.ResourceAcls {
				for _, found := range each.Acls {
					if found.Principal == principal {
						lines = append(lines, fmt.Sprint(each.Resource, *found))
					}
				}
			}
		}
		slices.Sort(lines)
		return lines
	}
	read := func(count int) {
		until(func() bool { return len(all()) == count })
		w.saw("read", all())
	}
	remove := func(acls ...*sarama.AclCreation) {
		var filters []*sarama.AclFilter
		for _, each := range acls {
			filters = append(filters, &sarama.AclFilter{
				ResourceType: each.ResourceType, ResourceName: &each.ResourceName,
				ResourcePatternTypeFilter: each.ResourcePatternType, Principal: &each.Principal, Host: &each.Host,
				Operation: each.Operation, PermissionType: each.PermissionType,
			})
		}
		for _, told := range got(broker.DeleteAcls(&sarama.DeleteAclsRequest{Version: 1, Filters: filters})).FilterResponses {
			w.saw("delete", int16(told.Err), text(told.ErrMsg), len(told.MatchingAcls))
			for _, each := range told.MatchingAcls {
				w.saw("deleted", int16(each.Err), text(each.ErrMsg), each.Resource, each.Acl)
			}
		}
	}
	topic := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: w.name, ResourcePatternType: sarama.AclPatternLiteral}
	group := sarama.Resource{ResourceType: sarama.AclResourceGroup, ResourceName: w.name, ResourcePatternType: sarama.AclPatternPrefixed}
	cluster := sarama.Resource{ResourceType: sarama.AclResourceCluster, ResourceName: "kafka-cluster", ResourcePatternType: sarama.AclPatternLiteral}
	elsewhere := sarama.Resource{ResourceType: sarama.AclResourceCluster, ResourceName: "elsewhere", ResourcePatternType: sarama.AclPatternLiteral}
	writes := &sarama.AclCreation{Resource: topic, Acl: acl("*", sarama.AclOperationWrite, sarama.AclPermissionAllow)}
	denied := &sarama.AclCreation{Resource: topic, Acl: acl("192.0.2.1", sarama.AclOperationRead, sarama.AclPermissionDeny)}
	reads := &sarama.AclCreation{Resource: group, Acl: acl("*", sarama.AclOperationRead, sarama.AclPermissionAllow)}
	alters := &sarama.AclCreation{Resource: cluster, Acl: acl("*", sarama.AclOperationAlter, sarama.AclPermissionAllow)}
	invalid := &sarama.AclCreation{Resource: elsewhere, Acl: acl("*", sarama.AclOperationAlter, sarama.AclPermissionAllow)}

	create(writes, denied, reads, alters, invalid)
	read(4)
	create(writes)
	read(4)
	remove(denied, reads, denied)
	read(2)
	remove(writes, alters)
	read(0)
	remove(writes)
}

func terraformQuota(w work) {
	client, broker := w.connected()
	defer client.Close()
	alter := func(kind sarama.QuotaEntityType, validateOnly bool, ops ...sarama.ClientQuotasOp) {
		entity := sarama.QuotaEntityComponent{EntityType: kind, MatchType: sarama.QuotaMatchExact, Name: w.name}
		for _, told := range got(broker.AlterClientQuotas(&sarama.AlterClientQuotasRequest{
			Entries:      []sarama.AlterClientQuotasEntry{{Entity: []sarama.QuotaEntityComponent{entity}, Ops: ops}},
			ValidateOnly: validateOnly,
		})).Entries {
			w.saw("alter", int16(told.ErrorCode), text(told.ErrorMsg), told.Entity)
		}
	}
	read := func(kind sarama.QuotaEntityType, entries, limits int) {
		until(func() bool {
			told := got(broker.DescribeClientQuotas(&sarama.DescribeClientQuotasRequest{
				Components: []sarama.QuotaFilterComponent{{EntityType: kind, MatchType: sarama.QuotaMatchExact, Match: w.name}},
				Strict:     true,
			}))
			check(told.ErrorCode == sarama.ErrNoError, told.ErrorCode, text(told.ErrorMsg))
			if len(told.Entries) != entries || entries == 1 && len(told.Entries[0].Values) != limits {
				return false
			}
			w.saw("read", told.Entries)
			return true
		})
	}
	set := func(key string, value float64) sarama.ClientQuotasOp {
		return sarama.ClientQuotasOp{Key: key, Value: value}
	}
	for _, kind := range []sarama.QuotaEntityType{sarama.QuotaEntityUser, sarama.QuotaEntityClientID} {
		read(kind, 0, 0)
		alter(kind, true, set("consumer_byte_rate", 1))
		alter(kind, false, set("consumer_byte_rate", 4000), set("producer_byte_rate", 3500))
		read(kind, 1, 2)
		alter(kind, false, set("consumer_byte_rate", 5000), sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true})
		read(kind, 1, 1)
		for _, key := range []string{"no_such_rate", "producer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"} {
			for _, value := range []float64{-1, 0, 0.5, 1e30, math.Inf(1)} {
				alter(kind, true, set(key, value))
			}
		}
		alter(kind, false, sarama.ClientQuotasOp{Key: "consumer_byte_rate", Remove: true})
		alter(kind, false, sarama.ClientQuotasOp{Key: "consumer_byte_rate", Remove: true})
		read(kind, 0, 0)
	}
}

func terraformScram(w work) {
	client, _ := w.connected()
	defer client.Close()
	admin := got(sarama.NewClusterAdminFromClient(client))
	results := func(what string, told []*sarama.AlterUserScramCredentialsResult) {
		for _, each := range told {
			w.saw(what, each.User, int16(each.ErrorCode), text(each.ErrorMessage))
		}
	}
	upsert := func(mechanism sarama.ScramMechanismType, iterations int32) {
		results("upsert", got(admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{{
			Name: w.name, Mechanism: mechanism, Iterations: iterations, Salt: []byte(strings.Repeat("salt", 16)), Password: []byte("secret"),
		}})))
	}
	remove := func(mechanism sarama.ScramMechanismType) {
		results("delete", got(admin.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{{Name: w.name, Mechanism: mechanism}})))
	}
	read := func() {
		for _, each := range got(admin.DescribeUserScramCredentials([]string{w.name})) {
			var found []string
			for _, info := range each.CredentialInfos {
				found = append(found, fmt.Sprint(info.Mechanism, info.Iterations))
			}
			slices.Sort(found)
			w.saw("read", each.User, int16(each.ErrorCode), text(each.ErrorMessage), found)
		}
	}
	read()
	upsert(sarama.SCRAM_MECHANISM_SHA_512, 4096)
	until(func() bool {
		return len(got(admin.DescribeUserScramCredentials([]string{w.name}))[0].CredentialInfos) == 1
	})
	upsert(sarama.SCRAM_MECHANISM_SHA_512, 8192)
	upsert(sarama.SCRAM_MECHANISM_SHA_256, 4096)
	until(func() bool {
		return len(got(admin.DescribeUserScramCredentials([]string{w.name}))[0].CredentialInfos) == 2
	})
	read()
	upsert(sarama.SCRAM_MECHANISM_SHA_512, 1000)
	upsert(sarama.SCRAM_MECHANISM_SHA_512, 20_000)
	remove(sarama.SCRAM_MECHANISM_SHA_512)
	remove(sarama.SCRAM_MECHANISM_SHA_256)
	until(func() bool {
		return got(admin.DescribeUserScramCredentials([]string{w.name}))[0].ErrorCode != sarama.ErrNoError
	})
	remove(sarama.SCRAM_MECHANISM_SHA_256)
	read()
}
