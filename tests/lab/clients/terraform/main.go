// Runs Terraform's Kafka provider (Mongey/kafka) as Terraform does, without Terraform: an order as JSON on standard input, a
// line of JSON for each scenario (tests/lab/clients/driver.py says which). For each step of a resource the provider plans,
// applies, reads back until it plans no further change, and the transcript has its plan, its state and its errors.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/Mongey/terraform-provider-kafka/kafka"
	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/terraform"
)

type order struct {
	Login     struct{ Bootstrap, Protocol, User, Password, Ca string }
	Prefix    string
	Scenarios json.RawMessage
}

// work is one scenario to be played.
type work struct {
	ctx        context.Context
	provider   *schema.Provider
	name       string
	transcript *strings.Builder
}

type attributes = map[string]any

const patience = 120 * time.Second

var plays = map[string]func(work){
	"terraform-topic": topic, "terraform-acl": acl, "terraform-quota": quota, "terraform-scram": scram,
}

func topic(w work) {
	of := func(partitions int, config attributes) attributes {
		return attributes{"name": w.name, "partitions": partitions, "replication_factor": 1, "config": config}
	}
	t := w.resource("kafka_topic")
	t.apply(of(2, attributes{"retention.ms": "none"}))
	t.apply(of(2, attributes{"retention.ms": "86400000"}))
	t.apply(of(5, attributes{"retention.ms": "3600000", "max.message.bytes": "86400"}))
	t.apply(of(5, attributes{"no.such.config": "1"}))
	t.apply(of(5, attributes{"cleanup.policy": "compact,delete"}))
	t.apply(of(3, nil)) // Fewer partitions: deleted and created again.
	w.resource("kafka_topic").importAs(w.name, of(3, nil))
	w.resource("kafka_topic").apply(of(3, nil)) // It exists.
	t.destroy()
}

func acl(w work) {
	of := func(kind, name, pattern, host, operation, permission string) attributes {
		return attributes{
			"resource_type": kind, "resource_name": name, "resource_pattern_type_filter": pattern,
			"acl_principal": "User:" + w.name, "acl_host": host, "acl_operation": operation, "acl_permission_type": permission,
		}
	}
	var all []*resource
	for _, each := range []attributes{
		of("Topic", w.name, "Literal", "*", "Write", "Allow"),
		of("Topic", w.name, "Literal", "192.0.2.1", "Read", "Deny"),
		of("Group", w.name, "Prefixed", "*", "Read", "Allow"),
		of("TransactionalID", "*", "Literal", "*", "Describe", "Allow"),
		of("Cluster", "kafka-cluster", "Literal", "*", "Alter", "Allow"),
	} {
		one := w.resource("kafka_acl")
		one.apply(each)
		all = append(all, one)
	}
	w.resource("kafka_acl").apply(of("Cluster", "elsewhere", "Literal", "*", "Alter", "Allow"))
	w.resource("kafka_acl").importAs(all[2].state.ID, of("Group", w.name, "Prefixed", "*", "Read", "Allow"))
	all[0].apply(of("Topic", w.name, "Literal", "192.0.2.2", "Write", "Allow"))
	for _, each := range all {
		each.destroy()
	}
}

func quota(w work) {
	for _, entity := range []attributes{
		{"entity_type": "user", "entity_name": w.name},
		{"entity_type": "client-id", "entity_name": w.name},
		{"entity_type": "client-id"}, // The default.
	} {
		of := func(config attributes) attributes {
			with := attributes{"config": config}
			for name, value := range entity {
				with[name] = value
			}
			return with
		}
		q := w.resource("kafka_quota")
		q.apply(of(attributes{"no_such_rate": 1.0}))
		q.apply(of(attributes{"consumer_byte_rate": -1.0}))
		q.apply(of(attributes{"consumer_byte_rate": 0.5}))
		q.apply(of(attributes{"consumer_byte_rate": 4000.0, "producer_byte_rate": 3500.0}))
		q.apply(of(attributes{"consumer_byte_rate": 5000.0, "request_percentage": 12.5, "controller_mutation_rate": 1.5}))
		q.destroy()
	}
}

func scram(w work) {
	of := func(mechanism string, iterations int, password string) attributes {
		return attributes{
			"username": w.name, "scram_mechanism": mechanism, "scram_iterations": iterations, "password": password,
		}
	}
	one, two := w.resource("kafka_user_scram_credential"), w.resource("kafka_user_scram_credential")
	one.apply(of("SCRAM-SHA-512", 4096, "first"))
	two.apply(of("SCRAM-SHA-256", 4096, "first"))
	one.apply(of("SCRAM-SHA-512", 8192, "second"))
	one.apply(of("SCRAM-SHA-512", 20_000, "second"))
	w.resource("kafka_user_scram_credential").importAs(
		w.name+"|SCRAM-SHA-512|second", of("SCRAM-SHA-512", 8192, "second"))
	one.destroy()
	two.destroy()
}

// resource is a resource of a configuration, and its state as Terraform keeps it.
type resource struct {
	work
	kind  string
	is    *schema.Resource
	state *terraform.InstanceState
}

func (w work) resource(kind string) *resource {
	return &resource{w, kind, w.provider.ResourcesMap[kind], nil}
}

// plan gives the diff between the state and the configuration, nil if there is none.
func (r *resource) plan(config attributes) *terraform.InstanceDiff {
	diff, err := r.is.Diff(r.ctx, r.state, terraform.NewResourceConfigRaw(config), r.provider.Meta())
	check(err == nil, err)
	if diff.Empty() {
		return nil
	}
	return diff
}

// apply makes the cluster as the configuration says. After an error the state is what it was.
func (r *resource) apply(config attributes) {
	failed := r.is.Validate(terraform.NewResourceConfigRaw(config))
	check(!failed.HasError(), "invalid:", failed)
	diff := r.plan(config)
	check(diff != nil, "nothing to change")
	var changes []string
	for name, each := range diff.Attributes {
		changes = append(changes, fmt.Sprintf("%s: %q -> %q", name, each.Old, each.New))
	}
	slices.Sort(changes)
	replaces := r.state != nil && diff.RequiresNew()
	r.saw("plan", r.kind, "replaces:", replaces, changes)
	if replaces {
		r.remove()
		r.state = nil
		diff = r.plan(config)
	}
	state, failed := r.is.Apply(r.ctx, r.state, diff, r.provider.Meta())
	if failed.HasError() {
		r.failed("apply", failed)
		return
	}
	r.state = state
	r.settle(config)
}

// importAs takes over what is there, which has to be as the configuration says.
func (r *resource) importAs(id string, config attributes) {
	imported, err := r.provider.ImportState(r.ctx, &terraform.InstanceInfo{Type: r.kind}, id)
	check(err == nil, err)
	r.state = imported[0]
	r.settle(config)
}

// settle reads until there is nothing to change: a broker sees a change a little later than its controller.
func (r *resource) settle(config attributes) {
	applied := r.state
	var left *terraform.InstanceDiff
	defer func() {
		if left != nil {
			r.saw("would change again:", left.GoString())
		}
	}()
	r.until(func() bool {
		r.state = r.read(applied)
		left = r.plan(config)
		return r.state != nil && left == nil
	})
	var lines []string
	for name, value := range r.state.Attributes {
		lines = append(lines, name+"="+value)
	}
	slices.Sort(lines)
	r.saw("state", r.kind, lines)
}

func (r *resource) read(state *terraform.InstanceState) *terraform.InstanceState {
	refreshed, failed := r.is.RefreshWithoutUpgrade(r.ctx, state, r.provider.Meta())
	check(!failed.HasError(), "read:", failed)
	return refreshed
}

// destroy removes it, and once more, as for somebody whose state is old.
func (r *resource) destroy() {
	for range 2 {
		r.remove()
		r.until(func() bool { return r.read(r.state) == nil })
		r.saw("gone", r.kind, r.state.ID)
	}
}

func (r *resource) remove() {
	diff := terraform.NewInstanceDiff()
	diff.Destroy = true
	if _, failed := r.is.Apply(r.ctx, r.state.DeepCopy(), diff, r.provider.Meta()); failed.HasError() {
		r.failed("destroy", failed)
	}
}

func (w work) failed(what string, diagnostics diag.Diagnostics) {
	for _, each := range diagnostics {
		w.saw(what, "failed:", each.Summary, each.Detail)
	}
}

// saw adds a line to the transcript, which is the detail of a scenario that passed.
func (w work) saw(what ...any) {
	fmt.Fprintln(w.transcript, what...)
}

func (w work) until(seen func() bool) {
	for !seen() {
		check(w.ctx.Err() == nil, "not seen after ", patience)
		time.Sleep(20 * time.Millisecond)
	}
}

func check(holds bool, said ...any) {
	if !holds {
		panic(fmt.Sprint(said...))
	}
}

type line struct {
	Scenario string `json:"scenario"`
	Result   string `json:"result"`
	Detail   string `json:"detail"`
}

func play(asked order, name, does string) (told line) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	transcript := &strings.Builder{}
	defer func() {
		if failure := recover(); failure != nil {
			told = line{name, "FAIL", fmt.Sprintf("%s%v\n%s", transcript, failure, debug.Stack())}
		}
	}()
	provider := kafka.Provider()
	failed := provider.Configure(ctx, terraform.NewResourceConfigRaw(attributes{
		"bootstrap_servers": []any{asked.Login.Bootstrap},
		"tls_enabled":       asked.Login.Protocol == "SASL_SSL",
		"ca_cert":           asked.Login.Ca,
		"sasl_mechanism":    "scram-sha512",
		"sasl_username":     asked.Login.User,
		"sasl_password":     asked.Login.Password,
	}))
	check(!failed.HasError(), failed)
	plays[does](work{ctx, provider, asked.Prefix + "-" + name, transcript})
	return line{name, "PASS", transcript.String()}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/Mongey/terraform-provider-kafka" {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	log.SetOutput(io.Discard)
	var asked order
	input, err := io.ReadAll(os.Stdin)
	check(err == nil, err)
	err = json.Unmarshal(input, &asked)
	check(err == nil, err)
	out := json.NewEncoder(os.Stdout)
	check(out.Encode(map[string]string{"client": "terraform", "version": version()}) == nil)
	decoder := json.NewDecoder(bytes.NewReader(asked.Scenarios)) // In the order in which they stand.
	decoder.Token()
	for decoder.More() {
		name, err := decoder.Token()
		check(err == nil, err)
		var scenario struct{ Does string }
		err = decoder.Decode(&scenario)
		check(err == nil, err)
		check(out.Encode(play(asked, name.(string), scenario.Does)) == nil)
	}
}
