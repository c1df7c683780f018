// Evaluates alert rules as Prometheus does: its own parser, its own engine.
//
// stdin: {"rules": FILE, "cases": [{"name": ..., "series": "load 15s\n  up{job=\"a\"} 1x40", "at": "10m"}]}, series in the
// notation of `promtool test rules`. stdout: {"errors": [what Prometheus would not load], "firing": {case: [{"alert": ...,
// "labels": {...}}]}}, what fires at that time, `for` included. With "ranges" it evaluates expressions instead (ranges.go).
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// The evaluation interval, and that of the series.
const step = 15 * time.Second

type testCase struct {
	Name   string `json:"name"`
	Series string `json:"series"`
	At     string `json:"at"`
}

type alert struct {
	Alert  string            `json:"alert"`
	Labels map[string]string `json:"labels"`
}

type answer struct {
	Errors []string           `json:"errors"`
	Firing map[string][]alert `json:"firing"`
}

// The test storage wants somebody to report failures to.
type reporter struct{ t string }

func (r reporter) Helper()                           {}
func (r reporter) Errorf(format string, args ...any) { log.Fatalf(r.t+": "+format, args...) }
func (r reporter) Fatal(args ...any)                 { log.Fatal(append([]any{r.t, ": "}, args...)...) }
func (r reporter) FailNow()                          { log.Fatal(r.t) }

func main() {
	var request struct {
		Rules  string     `json:"rules"`
		Cases  []testCase `json:"cases"`
		Ranges *ranges    `json:"ranges"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		log.Fatal(err)
	}
	if request.Ranges != nil {
		fail(json.NewEncoder(os.Stdout).Encode(rangesOf(*request.Ranges)))
		return
	}
	result := answer{Errors: []string{}, Firing: map[string][]alert{}}
	groups, errs := rulefmt.ParseFile(request.Rules, false)
	for _, err := range errs {
		result.Errors = append(result.Errors, err.Error())
	}
	if len(errs) == 0 {
		for _, one := range request.Cases {
			result.Firing[one.Name] = firing(groups, one)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
}

func firing(groups *rulefmt.RuleGroups, one testCase) []alert {
	at, err := model.ParseDuration(one.At)
	if err != nil {
		log.Fatalf("%s: %v", one.Name, err)
	}
	storage := promqltest.LoadedStorage(reporter{one.Name}, one.Series)
	defer storage.Close()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true,
	})
	found := []alert{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			query, err := engine.NewRangeQuery(
				context.Background(), storage, nil, rule.Expr, time.Unix(0, 0), time.Unix(0, 0).Add(time.Duration(at)), step)
			if err != nil {
				log.Fatalf("%s: %v", rule.Alert, err)
			}
			answered := query.Exec(context.Background())
			if answered.Err != nil {
				log.Fatalf("%s: %s: %v", one.Name, rule.Alert, answered.Err)
			}
			matrix, err := answered.Matrix()
			if err != nil {
				log.Fatal(err)
			}
			for _, series := range matrix {
				if held(series, time.Duration(at)) >= time.Duration(rule.For) && last(series) == time.Duration(at) {
					found = append(found, alert{rule.Alert, series.Metric.Map()})
				}
			}
			query.Close()
		}
	}
	return found
}

func last(series promql.Series) time.Duration {
	return time.Duration(series.Floats[len(series.Floats)-1].T) * time.Millisecond
}

// For how long the expression has held at that time, without a gap.
func held(series promql.Series, at time.Duration) time.Duration {
	since := at
	for i := len(series.Floats) - 1; i >= 0 && time.Duration(series.Floats[i].T)*time.Millisecond == since; i-- {
		since -= step
	}
	return at - since - step
}
