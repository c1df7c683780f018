// The scenarios in franz-go: an order as JSON on standard input, a line of JSON for each scenario
// (tests/lab/clients/driver.py says which). data.go has the producers and consumers, admin.go the admin calls. With an
// argument it is a steady client instead (steady.go).
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type login struct {
	Bootstrap, Protocol, Mechanism, User, Password string
	Ca                                             *string
}

type scenario struct {
	Does        string
	Compression string
	Acks        string
	Idempotent  bool
	Protocol    string
	Commits     bool
}

type order struct {
	Login     login
	Prefix    string
	Scenarios json.RawMessage
}

// work is one scenario to be played.
type work struct {
	login login
	name  string
	scenario
	ctx context.Context
}

type line struct {
	Scenario string `json:"scenario"`
	Result   string `json:"result"`
	Detail   string `json:"detail"`
}

const patience = 30 * time.Second

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func check(holds bool, said ...any) {
	if !holds {
		panic(fmt.Sprint(said...))
	}
}

// until looks again until it is seen: what is acknowledged becomes visible a little later.
func until(seen func() bool) {
	for looks := 0; looks < 300; looks++ {
		if seen() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	panic("not seen after 300 looks")
}

func (w work) mechanism() sasl.Mechanism {
	auth := scram.Auth{User: w.login.User, Pass: w.login.Password}
	switch w.login.Mechanism {
	case "PLAIN":
		return plain.Auth{User: w.login.User, Pass: w.login.Password}.AsMechanism()
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism()
	}
	return auth.AsSha256Mechanism()
}

func (w work) client(more ...kgo.Opt) *kgo.Client {
	return got(kgo.NewClient(w.options(more...)...))
}

func (w work) options(more ...kgo.Opt) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(w.login.Bootstrap, ",")...),
		kgo.SASL(w.mechanism()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if w.login.Ca != nil {
		pool := x509.NewCertPool()
		check(pool.AppendCertsFromPEM(got(os.ReadFile(*w.login.Ca))), "no certificate in ", *w.login.Ca)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))
	}
	return append(options, more...)
}

// admin gives the function that closes it, too.
func (w work) admin() (*kadm.Client, func()) {
	client := w.client()
	return kadm.NewClient(client), client.Close
}

func play(of func(work), w work) (told line) {
	if of == nil {
		return line{Result: "UNSUPPORTED"}
	}
	defer func() {
		if failure := recover(); failure != nil {
			told = line{Result: "FAIL", Detail: fmt.Sprintf("%v\n%s", failure, debug.Stack())}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.ctx = ctx
	of(w)
	return line{Result: "PASS"}
}

// inOrder reads the scenarios in the order in which they stand.
func inOrder(raw json.RawMessage, each func(name string, s scenario)) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	got(decoder.Token())
	for decoder.More() {
		name := got(decoder.Token()).(string)
		var s scenario
		must(decoder.Decode(&s))
		each(name, s)
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	if len(os.Args) > 1 {
		steady(os.Args[1])
		return
	}
	var asked order
	must(json.NewDecoder(os.Stdin).Decode(&asked))
	out := json.NewEncoder(os.Stdout)
	must(out.Encode(map[string]string{"client": "franz-go", "version": version()}))
	inOrder(asked.Scenarios, func(name string, s scenario) {
		of := dataPlays[s.Does]
		if of == nil {
			of = adminPlays[s.Does]
		}
		told := play(of, work{login: asked.Login, name: asked.Prefix + "-" + name, scenario: s})
		told.Scenario = name
		must(out.Encode(told))
	})
}
