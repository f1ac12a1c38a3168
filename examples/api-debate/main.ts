/** Lets a question be argued: with the models that the environment names and a real search, or as a session that is played. */
import { createTeam } from 'dramatis'
import { hasModel } from '../lib/has-model.ts'
import { play } from '../lib/play.ts'
import { queryFrom } from '../lib/query.ts'
import { recordedSearch } from '../lib/recorded-search.ts'
import { PAGES, playedModel } from './session.ts'
import { apiDebate } from './team.ts'
import { transcriptOf } from './transcript.ts'

const model = hasModel() ? undefined : playedModel()
const search = model && (await recordedSearch(PAGES))
if (model) console.error('No OPENAI_API_KEY: what the models say is a script. The rounds and the search are real.\n')

const query = queryFrom('Should we migrate from REST to GraphQL for our API?', model !== undefined)
const searchUrl = search?.origin ?? process.env.SEARXNG_URL
const team = createTeam(apiDebate({ searchUrl, ...(model && { models: { default: model } }) }))
try {
  const { messageHistory, finalOutput } = await play(team, query)
  console.log(`\n# Transcript\n\n${transcriptOf(messageHistory)}`)
  console.log(`\n# Answer\n\n${finalOutput}`)
  model?.assertDone()
} finally {
  await team.close()
  await search?.close()
}
