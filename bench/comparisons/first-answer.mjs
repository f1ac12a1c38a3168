// The smallest LangGraph.js program: one node, no model, one answer.
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'

const graph = new StateGraph(Annotation.Root({ question: Annotation(), answer: Annotation() }))
  .addNode('greeter', (state) => ({ answer: `You said: ${state.question}` }))
  .addEdge(START, 'greeter')
  .addEdge('greeter', END)
  .compile()

const state = await graph.invoke({ question: 'hello' })
console.log(state.answer)
