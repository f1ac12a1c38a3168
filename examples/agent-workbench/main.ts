/** Routes tasks, votes, and plans a trip: with the models that the environment names and a real search, or as a session that is played. */
import { createTeam, type Team } from 'dramatis'
import { hasModel } from '../lib/has-model.ts'
import { play } from '../lib/play.ts'
import { queryFrom } from '../lib/query.ts'
import { recordedSearch } from '../lib/recorded-search.ts'
import { recruiting } from './recruit.ts'
import { PAGES, playedModel } from './session.ts'
import { hotelScout, searchAndSums, travelAgency, voters } from './team.ts'

const TASKS = [
  "search for today's weather",
  'calculate value of MathSkill expression 2+2',
  'Use WebSearch for latest articles',
]
const SLOW =
  'The shop is slow since the last release. Action Alpha: roll it back. Action Beta: add two more servers. Which one?'
const MOVE = 'The move of the database is planned for tonight. Actions: Proceed, or Wait. Which one?'
const TRIP =
  'Plan a weekend trip to San Francisco for next month, including finding flights, booking a pet-friendly hotel, and listing three activities.'

const model = hasModel() ? undefined : playedModel()
const search = model && (await recordedSearch(PAGES))
const options = {
  searchUrl: search?.origin ?? process.env.SEARXNG_URL,
  ...(model && { models: { default: model } }),
}
if (model)
  console.error('No OPENAI_API_KEY: what the models say is a script. Routing, votes, skills and the search are real.')

/** Works on the tasks one by one, says what came of each, and closes the team. */
async function scene(title: string, team: Team, tasks: readonly string[]): Promise<void> {
  console.log(`\n# ${title}\n`)
  try {
    for (const task of tasks) console.log((await play(team, task)).finalOutput)
  } finally {
    await team.close()
  }
}

try {
  await scene('Each task goes to who can do it', createTeam(searchAndSums(options)), TASKS)

  const weighed = {
    AgentX: { weight: 2, cares: 'safety' },
    AgentY: { cares: 'new features' },
    AgentZ: { cares: 'growth' },
  }
  await scene('The task names nobody: all answer, by weights', createTeam(voters(options, weighed)), [SLOW])

  const counted = {
    AgentP: { cares: 'the schedule' },
    AgentQ: { cares: 'quiet nights', weight: null },
    AgentR: { cares: 'speed' },
  }
  await scene('One has no weight: the majority decides', createTeam(voters(options, counted)), [MOVE])

  const recruit = recruiting([hotelScout(options)], (role) => agency.addAgent(role))
  const agency = createTeam(travelAgency(options, recruit))
  await scene('A trip in parts, and a teammate who comes later', agency, [queryFrom(TRIP, model !== undefined)])
  model?.assertDone()
} finally {
  await search?.close()
}
