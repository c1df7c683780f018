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
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func print(_ context.Context, traces ptrace.Traces) error {
	marshaler := ptrace.JSONMarshaler{}
	line, err := marshaler.MarshalTraces(traces)
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	return err
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
	printer, err := consumer.NewTraces(print)
	if err != nil {
		log.Fatal(err)
	}
	receiver, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), config, printer)
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
