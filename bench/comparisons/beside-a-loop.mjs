// Eight nodes of one LangGraph.js step: one computes for 2 s without a pause, seven wait 60 ms by timer.
import { Annotation, START, StateGraph } from '@langchain/langgraph'

const LOOP_MS = 2_000
const graph = new StateGraph(
  Annotation.Root({ done: Annotation({ reducer: (left, right) => left.concat(right), default: () => [] }) }),
)
let startedAt = 0
let lastAnswerAt = 0

// the waiting nodes come first, so their timers run before the loop does: the friendliest order there is
for (let i = 1; i <= 7; i++) {
  graph.addNode(`waiter-${i}`, async () => {
    await new Promise((resolve) => setTimeout(resolve, 60))
    lastAnswerAt = performance.now()
    return { done: [`waiter-${i}`] }
  })
  graph.addEdge(START, `waiter-${i}`)
}
graph.addNode('looper', async () => {
  const end = performance.now() + LOOP_MS
  while (performance.now() < end);
  return { done: ['looper'] }
})
graph.addEdge(START, 'looper')

const app = graph.compile()
startedAt = performance.now()
const state = await app.invoke({})
if (state.done.length !== 8) throw new Error(`only ${state.done.length} of 8 nodes answered`)
console.log(JSON.stringify({ ms: lastAnswerAt - startedAt }))
