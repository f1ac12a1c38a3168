import { defineEval, gate, noAlarms, within } from 'dramatis/evals'
import team from './team.js'

export default defineEval({
  name: 'editing',
  team,
  cases: [
    { id: 'short', input: 'Less is more.' },
    { id: 'long', input: 'The more words a sentence has, the fewer readers reach the end of it.' },
  ],
  gates: [
    gate('the editor speaks last', ({ speaker }) => speaker === 'editor'),
    noAlarms(),
    within({ modelCalls: 1, ms: 60_000 }),
  ],
})
