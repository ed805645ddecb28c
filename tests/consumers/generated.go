// Calls the service with the client that openapi-generator made; prints what came back as JSON.
//
//	go run generated.go ADDRESS     with the generated package `posenc` on the GOPATH
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"posenc"
)

func must[T any](value T, _ any, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	configuration := posenc.NewConfiguration()
	configuration.Servers = posenc.ServerConfigurations{{URL: os.Args[1]}}
	client := posenc.NewAPIClient(configuration)
	none := context.Background()

	rope := must(client.EncodingsAPI.EncodingsRope(none).Dim(4).Length(3).Execute())
	file := must(client.EncodingsAPI.EncodingsRopeFile(none, posenc.EXTENSION_BIN).
		Dim(4).Length(3).Tensor(posenc.ENCODINGSROPETENSOR_SIN).Execute())
	sines := make([]float32, 12)
	if err := binary.Read(file, binary.LittleEndian, sines); err != nil {
		panic(err)
	}
	slopes := must(client.BiasesAPI.BiasesAlibiSlopes(none).Heads(3).Execute())
	table := []interface{}{[]float32{0, 1}, []float32{1, 3}, []float32{4, 5}}
	resized := must(client.LearnedAPI.LearnedResample(none).Length(5).Method(posenc.LEARNEDRESAMPLEMETHOD_LINEAR).
		LearnedResampleBody(*posenc.NewLearnedResampleBody(*posenc.NewLearnedResampleBodyTensors(table))).Execute())

	_, _, err := client.EncodingsAPI.EncodingsRope(none).Dim(5).Length(3).Execute()
	var refused *posenc.GenericOpenAPIError
	if !errors.As(err, &refused) {
		panic("nothing was refused")
	}
	problem := refused.Model().(posenc.Problem)
	told, _ := json.Marshal(map[string]any{
		"base":    rope.Parameters.Base,
		"rope":    rope.Tensors.Sin.Data,
		"file":    sines,
		"biases":  slopes.Tensors.Slopes.Data,
		"learned": resized.Tensors.X.Data,
		"status":  problem.Status,
		"fault":   problem.Errors[0].Code,
	})
	fmt.Println(string(told))
}
