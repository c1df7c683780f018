// The OTLP receiver of the OpenTelemetry Collector, by itself: what it has understood comes out as OTLP's JSON.
//
// Argument: host:port to listen on, over HTTP. stdout: "listening", then one line for each request. It ends with
// its stdin.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func print(line []byte, err error) error {
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	return err
}

func printTraces(_ context.Context, traces ptrace.Traces) error {
	return print((&ptrace.JSONMarshaler{}).MarshalTraces(traces))
}

func printLogs(_ context.Context, logs plog.Logs) error {
	return print((&plog.JSONMarshaler{}).MarshalLogs(logs))
}

func main() {
	ctx := context.Background()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	http := map[string]any{"endpoint": os.Args[1]}
	wanted := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": http}})
	if err := wanted.Unmarshal(config); err != nil {
		log.Fatal(err)
	}
	ofTraces, err := consumer.NewTraces(printTraces)
	if err != nil {
		log.Fatal(err)
	}
	ofLogs, err := consumer.NewLogs(printLogs)
	if err != nil {
		log.Fatal(err)
	}
	settings := receivertest.NewNopSettings(factory.Type())
	// One receiver for both, because the configuration is the same one.
	if _, err := factory.CreateLogs(ctx, settings, config, ofLogs); err != nil {
		log.Fatal(err)
	}
	receiver, err := factory.CreateTraces(ctx, settings, config, ofTraces)
	if err != nil {
		log.Fatal(err)
	}
	if err := receiver.Start(ctx, componenttest.NewNopHost()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := receiver.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
