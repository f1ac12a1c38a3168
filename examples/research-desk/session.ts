/** What the models say where there is none, and the web that is searched and read. The queues, the tools and the replanning are real. */
import { scriptedModel } from 'dramatis/testing'
import { by } from '../lib/by.ts'
import type { FoundPage } from '../lib/recorded-search.ts'

export const QUESTION =
  'We run 14 servers on Node.js 20. When does its support end, when does that of Node.js 22, how many days does a move gain, and how many hours does it take at 36 minutes a server?'

function release(version: number, codename: string, dates: string): FoundPage {
  return {
    title: `Node.js ${version}`,
    url: `/releases/${version}`,
    content: `Node.js ${version}, codename ${codename}: its phases, from the first release to the end of life.`,
    html: `<!doctype html>
<html lang="en">
  <head><title>Node.js ${version}</title></head>
  <body>
    <nav><a href="/">Home</a> <a href="/downloads">Downloads</a> <a href="/blog">Blog</a></nav>
    <article>
      <h1>Node.js ${version} (${codename})</h1>
      <p>Each even-numbered release of Node.js is supported for 30 months once it is in long-term support. First it is active, and gets features and fixes; then it is in maintenance, and gets fixes of critical and security bugs alone.</p>
      <p>${dates}</p>
    </article>
  </body>
</html>
`,
  }
}

export const PAGES: readonly FoundPage[] = [
  release(
    20,
    'Iron',
    'Node.js 20 was released on 2023-04-18, in active support from 2023-10-24, in maintenance from 2024-10-22; its end of life is 2026-04-30.',
  ),
  release(
    22,
    'Jod',
    'Node.js 22 was released on 2024-04-24, in active support from 2024-10-29, in maintenance from 2025-10-21; its end of life is 2027-04-30.',
  ),
]

/** The dates stand in the results of the sub-tasks before it. */
const DAYS_BETWEEN = `const [first, second] = input.results.match(/\\d{4}-\\d\\d-\\d\\d/g).map((date) => Date.parse(date))
const days = (second - first) / 86_400_000
days`

const researches = (version: number) => ({
  agent: 'ResearchAgent',
  task: `Find out when the support of Node.js ${version} ends`,
  tool: 'web_search',
  input: { query: `Node.js ${version} end of life` },
})

const calculates = (task: string, tool: string, input: object, dependsOn: number[] = []) => ({
  agent: 'UtilityAgent',
  task,
  tool,
  input,
  dependsOn,
})

const HOURS = 'Calculate the hours for 14 servers at 36 minutes each'

const orchestrator = by(
  'OrchestratorAgent',
  {
    when: /Take this question apart/,
    reply: {
      tasks: [
        researches(20),
        researches(22),
        calculates('Count the days between the two dates', 'run_code', { code: DAYS_BETWEEN }, [1, 2]),
        calculates(HOURS, 'calculator', { expression: '14 servers * 36 minutes / 60' }), // it knows no units
      ],
      reasoning: 'Two facts to find, at the same time; the days build on both, the hours on neither.',
    },
  },
  {
    when: /A task of your plan has failed/,
    reply: {
      tasks: [calculates(HOURS, 'calculator', { expression: '14 * 36 / 60' })],
      reasoning: 'The calculator takes numbers alone.',
    },
  },
  {
    when: /^365$.*^8\.4$/ms,
    reply:
      'Support of Node.js 20 ends on 2026-04-30, that of Node.js 22 on 2027-04-30 (the pages of the two releases). The move gains 365 days, and takes 8.4 hours for 14 servers.',
  },
)

const researcher = (origin: string, version: number, date: string) => {
  const url = `${origin}/releases/${version}`
  return by(
    'ResearchAgent',
    // The search that the plan names is made by the runtime.
    {
      when: new RegExp(`Its result:\n\n\\[\\{"title":"Node\\.js ${version}"`),
      toolCall: { name: 'read_webpage', input: { url } },
    },
    { when: new RegExp(`end of life is ${date}`), reply: `Support of Node.js ${version} ends on ${date} (${url}).` },
  )
}

/** `origin`: where the recorded web is. */
export const playedModel = (origin: string) =>
  scriptedModel([...orchestrator, ...researcher(origin, 20, '2026-04-30'), ...researcher(origin, 22, '2027-04-30')])
