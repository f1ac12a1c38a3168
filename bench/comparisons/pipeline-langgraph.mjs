// A pipeline of LangGraph.js nodes that do nothing, run after run: what one step costs, in us.
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'

const TEXT = 'pass it on'
const [steps, runs, before] = process.argv.slice(2).map(Number)
const names = Array.from({ length: steps }, (_, i) => `stage-${i + 1}`)

const graph = new StateGraph(Annotation.Root({ text: Annotation() }))
for (const name of names) graph.addNode(name, ({ text }) => ({ text }))
graph.addEdge(START, names[0])
for (const [i, name] of names.entries()) graph.addEdge(name, names[i + 1] ?? END)
const pipeline = graph.compile()

async function run() {
  const { text } = await pipeline.invoke({ text: TEXT }, { recursionLimit: steps + 1 })
  if (text !== TEXT) throw new Error(`The pipeline answered ${text}.`)
}

for (let i = 0; i < before; i++) await run()
const startedAt = performance.now()
for (let i = 0; i < runs; i++) await run()
console.log(JSON.stringify({ usPerStep: ((performance.now() - startedAt) * 1_000) / runs / steps }))
