// SPDX-License-Identifier: BSD-3-Clause
//
// What people write who use a server from Node: calls with @grpc/grpc-js on messages that
// @grpc/proto-loader reads from the .proto files.
//
//     node grpc_client.js <node_modules> <folder of .proto files> <host:port> [<scenario>...]
//
// Prints one JSON object: for each scenario what came back. Judging it is the caller's business
// (test_node_grpc.py). Bytes are in base64, int64 are texts.
"use strict";

const path = require("path");

const [modules, protos, address, ...chosen] = process.argv.slice(2);
const grpc = require(path.join(modules, "@grpc/grpc-js"));
const loader = require(path.join(modules, "@grpc/proto-loader"));

const SECONDS = 20;
const definition = loader.loadSync(["grpc_service.proto", "health.proto"], {
    includeDirs: [protos], keepCase: true, longs: String, enums: String, bytes: String,
    defaults: true, oneofs: true,
});
const services = grpc.loadPackageDefinition(definition);
const unlimited = {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    "grpc.use_local_subchannel_pool": 1,
};

function newClient(more = {}) {
    return new services.inference.GRPCInferenceService(
        address, grpc.credentials.createInsecure(), { ...unlimited, ...more });
}

function deadline(seconds = SECONDS) {
    return new Date(Date.now() + seconds * 1000);
}

function metadataOf(entries = {}) {
    const metadata = new grpc.Metadata();
    for (const [name, value] of Object.entries(entries)) metadata.set(name, value);
    return metadata;
}

function failure(error) {
    return { code: grpc.status[error.code], details: error.details };
}

// The answer to one call; a failure is an answer, too. `change` gets the call when it is under way.
function ask(client, method, request = {}, { metadata = {}, seconds = SECONDS, change } = {}) {
    return new Promise((resolve) => {
        const call = client[method](request, metadataOf(metadata), { deadline: deadline(seconds) },
            (error, reply) => resolve(error ? failure(error) : reply));
        if (change) change(call);
    });
}

// All that comes back on a ModelStreamInfer, and how it ends.
function askStream(client, requests, { metadata = {}, change } = {}) {
    return new Promise((resolve) => {
        const call = client.ModelStreamInfer(metadataOf(metadata), { deadline: deadline() });
        const messages = [];
        call.on("data", (message) => {
            messages.push(message);
            if (change) change(call, messages.length);
        });
        call.on("error", () => {});  // "status" tells it
        call.on("status", (status) => resolve({ messages, end: failure(status) }));
        for (const request of requests) call.write(request);
        if (!change) call.end();
    });
}

function fp32(values) {
    return Buffer.from(new Float32Array(values).buffer);
}

function rawRequest(model, values, more = {}) {
    return {
        model_name: model,
        inputs: [{ name: "INPUT0", datatype: "FP32", shape: [values.length] }],
        raw_input_contents: [fp32(values)],
        ...more,
    };
}

function typedRequest(model, datatype, contents) {
    const [values] = Object.values(contents);
    return {
        model_name: model,
        inputs: [{ name: "INPUT0", datatype, shape: [values.length], contents }],
    };
}

const fail = (text, code) => ({
    parameters: { fail: { string_param: text }, fail_code: { string_param: code } },
});

const client = newClient();

const scenarios = {
    async health() {
        const health = new services.grpc.health.v1.Health(
            address, grpc.credentials.createInsecure());
        const check = await ask(health, "Check", { service: "" });
        health.close();
        return {
            check,
            live: await ask(client, "ServerLive"),
            ready: await ask(client, "ServerReady"),
            model: await ask(client, "ModelReady", { name: "simple", version: "1" }),
            nobody: await ask(client, "ModelReady", { name: "nobody" }),
        };
    },

    async metadata() {
        return {
            server: await ask(client, "ServerMetadata"),
            model: await ask(client, "ModelMetadata", { name: "simple" }),
            config: await ask(client, "ModelConfig", { name: "simple" }),
            index: await ask(client, "RepositoryIndex"),
        };
    },

    raw: () => ask(client, "ModelInfer", rawRequest("simple", [1, -2.5, NaN], { id: "of node" })),

    async typed() {
        const texts = ["", "a", "\u00e9"].map((text) => Buffer.from(text));
        return {
            fp32: await ask(client, "ModelInfer",
                typedRequest("simple", "FP32", { fp32_contents: [1, -2.5, 3.4028234663852886e38] })),
            int64: await ask(client, "ModelInfer", typedRequest("int64", "INT64", {
                int64_contents: ["-9223372036854775808", "9223372036854775807", "-1"] })),
            bytes: await ask(client, "ModelInfer",
                typedRequest("bytes", "BYTES", { bytes_contents: texts })),
        };
    },

    async large() {
        const values = Array.from({ length: 2 << 20 }, (_, i) => i);
        const reply = await ask(client, "ModelInfer", rawRequest("simple", values));
        return Buffer.from(reply.raw_output_contents[0], "base64").equals(fp32(values));
    },

    async compressed() {
        const values = new Array(50000).fill(1.5);
        const answers = [];
        for (const algorithm of [1, 2]) {  // deflate, gzip
            const own = newClient({ "grpc.default_compression_algorithm": algorithm });
            const reply = await ask(own, "ModelInfer", rawRequest("simple", values));
            answers.push(Buffer.from(reply.raw_output_contents[0], "base64")
                .equals(fp32(values)));
            own.close();
        }
        return answers;
    },

    async errors() {
        const model = rawRequest("testing", [1]);
        return {
            unknown: await ask(client, "ModelMetadata", { name: "nobody" }),
            text: await ask(client, "ModelInfer",
                { ...model, ...fail("100 % gr\u00f6\u00dfer\n\u65e5\u672c", "Unavailable") }),
            codes: await Promise.all(["Unknown", "Internal", "Not found", "Invalid argument",
                "Unavailable", "Unsupported", "Already exists", "Cancelled"].map((code) =>
                ask(client, "ModelInfer", { ...model, ...fail("as asked", code) }))),
            method: await new Promise((resolve) => client.makeUnaryRequest(
                "/inference.GRPCInferenceService/Nothing", (m) => m, (m) => m, Buffer.alloc(0),
                (error) => resolve(failure(error)))),
        };
    },

    // What the server sends as metadata, and what it makes of the client's.
    async headers() {
        let initial;
        let status;
        const change = (call) => {
            call.on("metadata", (metadata) => { initial = metadata.getMap(); });
            call.on("status", (got) => { status = grpc.status[got.code]; });
        };
        await ask(client, "ModelInfer", rawRequest("simple", [1]), { change });
        return {
            initial,
            status,
            forwarded: await ask(client, "ModelInfer", rawRequest("testing", [1]),
                { metadata: { fail: "by metadata" } }),
            locked: await ask(client, "LogSettings"),
            unlocked: await ask(client, "LogSettings", {},
                { metadata: { "triton-grpc-protocol-admin": "s3cret" } }),
        };
    },

    stream: () => askStream(client, [
        ...Array.from({ length: 100 }, (_, i) => rawRequest("simple", [i], { id: `${i}` })),
        rawRequest("nobody", [1], { id: "refused" }),
        rawRequest("testing", [1], { id: "failed", ...fail("as asked", "Internal") }),
        rawRequest("simple", [7], { id: "last" }),
    ]),

    stream_status: () => askStream(client, [
        rawRequest("testing", [1], fail("as asked", "Not found")),
    ], { metadata: { triton_grpc_error: "true" } }),

    // A stream that goes on for as long as the client wants.
    stream_by_turns: () => askStream(client, [rawRequest("simple", [0], { id: "0" })], {
        change(call, n) {
            if (n < 50) call.write(rawRequest("simple", [n], { id: `${n}` }));
            else call.end();
        },
    }),

    stream_cancel: () => askStream(client, [rawRequest("simple", [0])], {
        change: (call) => call.cancel(),
    }),

    async deadline() {
        await ask(client, "ServerLive");  // connecting takes none of its time
        return ask(client, "ModelInfer", rawRequest("gated_deadline", [1]), { seconds: 2 });
    },

    // When standard input says so: the model has begun then.
    async cancel() {
        let call;
        const answer = ask(client, "ModelInfer", rawRequest("gated_cancel", [1]),
            { change: (made) => { call = made; } });
        await new Promise((resolve) => process.stdin.once("data", resolve));
        process.stdin.destroy();
        call.cancel();
        return answer;
    },

    async many() {
        const answers = await Promise.all(Array.from({ length: 500 }, (_, i) =>
            ask(client, "ModelInfer", rawRequest("simple", [i], { id: `${i}` }))));
        return answers.filter((answer, i) => answer.id === `${i}`
            && answer.raw_output_contents[0] === fp32([i]).toString("base64")).length;
    },
};

async function main() {
    const found = {};
    for (const name of chosen.length > 0 ? chosen : Object.keys(scenarios)) {
        found[name] = await scenarios[name]();
    }
    client.close();
    process.stdout.write(JSON.stringify(found));
}

main();
