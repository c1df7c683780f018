// Evaluates expressions over samples that were scraped, for tests/lab/pictures.
package main

import (
	"context"
	"encoding/json"
	"log"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// One scraped series; a value is text, as the text of an exposition, and empty where the series ended.
type scraped struct {
	Labels map[string]string `json:"labels"`
	At     []int64           `json:"at"`
	Values []string          `json:"values"`
}

type ranges struct {
	Samples string            `json:"samples"`
	Queries map[string]string `json:"queries"`
	Start   int64             `json:"start"`
	End     int64             `json:"end"`
	Step    int64             `json:"step"`
}

type line struct {
	Labels map[string]string `json:"labels"`
	Points [][2]float64      `json:"points"`
}

// rangesOf gives the lines of each query; all times are milliseconds.
func rangesOf(asked ranges) map[string][]line {
	storage := promqltest.LoadedStorage(reporter{"samples"}, "")
	defer storage.Close()
	raw, err := os.ReadFile(asked.Samples)
	fail(err)
	var all []scraped
	fail(json.Unmarshal(raw, &all))
	appender := storage.Appender(context.Background())
	for _, one := range all {
		series := labels.FromMap(one.Labels)
		for i, at := range one.At {
			number := math.Float64frombits(value.StaleNaN)
			if one.Values[i] != "" {
				number, err = strconv.ParseFloat(one.Values[i], 64)
				fail(err)
			}
			_, err = appender.Append(0, series, at, number)
			fail(err)
		}
	}
	fail(appender.Commit())
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true,
	})
	found := map[string][]line{}
	for name, expression := range asked.Queries {
		query, err := engine.NewRangeQuery(context.Background(), storage, nil, expression,
			time.UnixMilli(asked.Start), time.UnixMilli(asked.End), time.Duration(asked.Step)*time.Millisecond)
		fail(err)
		answered := query.Exec(context.Background())
		fail(answered.Err)
		matrix, err := answered.Matrix()
		fail(err)
		found[name] = []line{}
		for _, series := range matrix {
			one := line{Labels: series.Metric.Map(), Points: [][2]float64{}}
			for _, point := range series.Floats {
				if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
					one.Points = append(one.Points, [2]float64{float64(point.T), point.F})
				}
			}
			found[name] = append(found[name], one)
		}
		query.Close()
	}
	return found
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
