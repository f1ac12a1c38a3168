/** Answers a question: with the models and keys that the environment names and the real web, or as a session that is played. */
import { createTeam } from 'dramatis'
import { play } from '../lib/play.ts'
import { queryFrom } from '../lib/query.ts'
import { recordedSearch } from '../lib/recorded-search.ts'
import { modelsFrom } from './keys.ts'
import { resultsIn, subTasksIn } from './queues.ts'
import { PAGES, playedModel, QUESTION } from './session.ts'
import { type DeskOptions, researchDesk } from './team.ts'

/** What stands in for models and the web. */
async function stage() {
  const web = await recordedSearch(PAGES)
  const model = playedModel(web.origin)
  const { host } = new URL(web.origin)
  const models = { orchestrator: model, research: model }
  return { web, model, options: { searchUrl: web.origin, readable: [host], models } satisfies DeskOptions }
}

const models = modelsFrom(process.env)
const played = models ? undefined : await stage()
if (played)
  console.error('No key: what the models say is a script. Tools, queues and threads are real, the web is recorded.\n')

const query = queryFrom(QUESTION, played !== undefined)
const team = createTeam(researchDesk(models ? { searchUrl: process.env.SEARXNG_URL, models } : played!.options))
try {
  const { messageHistory, finalOutput } = await play(team, query)
  console.log('\n# Sub-tasks\n')
  for (const subTask of subTasksIn(messageHistory)) console.log(JSON.stringify(subTask))
  console.log('\n# Results\n')
  for (const result of resultsIn(messageHistory)) console.log(JSON.stringify(result))
  console.log(`\n# Answer\n\n${finalOutput}`)
  played?.model.assertDone()
} finally {
  await team.close()
  await played?.web.close()
}
