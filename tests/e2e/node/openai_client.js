// SPDX-License-Identifier: BSD-3-Clause
// OpenAI's client, unmodified, against a server: node openai_client.js <node_modules> <url> <scenario>...
// Prints one object of JSON with the results of the scenarios.
"use strict";
const path = require("path");

const [modules, url, ...scenarios] = process.argv.slice(2);
const OpenAI = require(path.join(modules, "openai"));
const client = new OpenAI({ apiKey: "of nobody", baseURL: url + "/v1", maxRetries: 0 });
const user = (content) => [{ role: "user", content }];
const tools = [{ type: "function", function: { name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" } } } } }];

async function failure(promise) {
    try {
        await promise;
        return null;
    } catch (e) {
        return { name: e.constructor.name, status: e.status, type: e.type, param: e.param, code: e.code,
            message: e.message, id: e.requestID };
    }
}

async function collect(stream) {
    const found = [];
    for await (const chunk of stream)
        found.push(chunk);
    return found;
}

const all = {
    async models() {
        const found = [];
        for await (const model of client.models.list())
            found.push(model.id);
        return found;
    },
    retrieve: () => client.models.retrieve("speaks"),
    slash: () => failure(client.models.retrieve("a/b")),
    chat: () => client.chat.completions.create({ model: "vllm", messages: user("Hi") }),
    completion: () => client.completions.create({ model: "vllm", prompt: "Hi", n: 2 }),
    async stream() {
        return collect(await client.chat.completions.create({ model: "vllm", messages: user("a|b"),
            stream: true, stream_options: { include_usage: true } }));
    },
    async helper() {
        const seen = [];
        const runner = client.chat.completions.stream({ model: "vllm", messages: user("a|b") });
        runner.on("content", (piece) => seen.push(piece));
        return { seen, last: await runner.finalContent() };
    },
    async helper_tools() {
        const runner = client.chat.completions.stream({ model: "speaks", messages: user("@tools"), tools });
        const message = await runner.finalMessage();
        return message.tool_calls.map((c) => [c.id, c.function.name, c.function.arguments]);
    },
    async tools() {
        const found = await client.chat.completions.create({ model: "speaks", messages: user("@tools"),
            tools });
        return found.choices[0].message.tool_calls;
    },
    async parse() {
        const found = await client.chat.completions.parse({ model: "vllm",
            messages: user('@|{"a": 7}'), response_format: { type: "json_schema",
                json_schema: { name: "x", schema: { type: "object" } } } });
        return found.choices[0].message.parsed;
    },
    async logprobs() {
        const found = await client.chat.completions.create({ model: "vllm", messages: user("a|b"),
            logprobs: true, top_logprobs: 1 });
        return found.choices[0].logprobs.content.map((t) => [t.token, t.logprob]);
    },
    async embeddings() {
        const found = {};
        for (const encoding_format of [undefined, "float", "base64"]) {
            const answer = await client.embeddings.create({ model: "embed", input: ["a", "bb"],
                encoding_format });
            found[String(encoding_format)] = answer.data.map((row) => row.embedding);
        }
        return found;
    },
    async errors() {
        const ask = (body, options) => failure(client.completions.create(
            { model: "vllm", prompt: "a", ...body }, options));
        return {
            wrong: await ask({ temperature: 9 }), unknown: await ask({ model: "nobody" }),
            failed: await ask({ prompt: "@fail" }),
            large: await ask({ prompt: "x".repeat(200000) }),
        };
    },
    async midstream() {
        return failure((async () => collect(await client.completions.create(
            { model: "vllm", prompt: "@fail|a", stream: true })))());
    },
    async abort() {
        const stream = await client.completions.create({ model: "vllm", prompt: "a|@wait_after",
            stream: true });
        for await (const chunk of stream) {
            stream.controller.abort();
            return [chunk.choices[0].text, Date.now() / 1000];
        }
    },
    async keys() {
        const by = (apiKey) => new OpenAI({ apiKey, baseURL: url + "/v1", maxRetries: 0 });
        return {
            none: await failure(by("of nobody").models.list()),
            some: (await by("key of some").models.list()).data.map((m) => m.id),
            refused: await failure(by("key of some").completions.create({ model: "plain", prompt: "a" })),
        };
    },
    async retries() {
        const patient = new OpenAI({ apiKey: "x", baseURL: url + "/v1", maxRetries: 1 });
        const begin = Date.now();
        const e = await failure(patient.completions.create({ model: "llmapi", prompt: "a" }));
        return { ...e, waited: Date.now() - begin };
    },
};

(async () => {
    const results = {};
    for (const name of scenarios)
        results[name] = await all[name]();
    process.stdout.write(JSON.stringify(results));
})().catch((e) => {
    console.error(e);
    process.exit(1);
});
