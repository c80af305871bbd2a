package sample

import (
	"bytes"
	"compress/gzip"
	"reflect"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	want := &Sample{
		Articles: []Article{
			{
				URL: "https://a.example/?q=1,2&x=\"y\"", Source: "A, B", Rank: 3, Length: 4000, Image: true,
				Categories: []string{"health", "general"},
			},
			{URL: "https://b.example/новости", Source: "b"},
		},
		Sightings: []Sighting{{0, First, 0}, {2 * time.Second, Reappear, 0}, {0, FeedFirst, 1}},
	}
	var file bytes.Buffer
	if err := want.Write(&file); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"columns":            "0,f\n",
		"time":               "-1,f,0,https://a.example/,a,0,0,0,\n",
		"kind":               "0,x,0,https://a.example/,a,0,0,0,\n",
		"unknown article":    "0,r,0\n",
		"skipped number":     "0,f,1,https://a.example/,a,0,0,0,\n",
		"article met before": "0,f,0,https://a.example/,a,0,0,0,\n0,f,0,https://a.example/,a,0,0,0,\n",
		"rank":               "0,f,0,https://a.example/,a,,0,0,\n",
		"length":             "0,f,0,https://a.example/,a,0,9999999999,0,\n",
		"quotes":             "0,f,0,\"https\n",
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := Read(bytes.NewReader(zip(t, text))); err == nil {
				t.Errorf("read %+v", s)
			}
		})
	}
	if _, err := Read(bytes.NewReader([]byte("0,f,0"))); err == nil {
		t.Error("read what is not gzip")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("0,f,0,https://a.example/,a,0,0,1,x|y\n5,r,0\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(bytes.NewReader(zip(t, text)))
		if err != nil {
			return
		}
		for _, sighting := range s.Sightings {
			if sighting.Article >= len(s.Articles) || sighting.After < 0 {
				t.Fatalf("%+v of %d articles", sighting, len(s.Articles))
			}
		}
	})
}

func zip(t *testing.T, text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
