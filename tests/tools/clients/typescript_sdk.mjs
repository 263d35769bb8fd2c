// Plays a script of calls with the TypeScript SDK; runs in a folder where it is installed.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [folder, targetText, callsText] = process.argv.slice(2);
const require = createRequire(path.join(folder, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const target = JSON.parse(targetText);
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : new StdioClientTransport({ command: target.command, args: target.args });
const client = new Client({ name: "typescript", version: "1" });
await client.connect(transport);
const names = async () => (await client.listTools()).tools.map((tool) => tool.name);
const tools = await names();
const results = [];
for (const call of [{ name: "get_task", arguments: {} }, ...JSON.parse(callsText)]) {
  const result = await client.callTool({ name: call.name, arguments: call.arguments });
  results.push({ error: Boolean(result.isError), ...result.structuredContent });
}
console.log(JSON.stringify({ tools, tools_after: await names(), results }));
await client.close();
