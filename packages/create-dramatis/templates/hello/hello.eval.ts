import { defineEval, noAlarms, within } from 'dramatis/evals'
import team from './team.js'

export default defineEval({
  name: 'hello',
  team,
  cases: [
    { id: 'by name', input: 'I am Ann.' },
    { id: 'a conversation', input: ['I am Bob.', 'And this is Eve.'] },
  ],
  gates: [noAlarms(), within({ modelCalls: 10 })],
})
