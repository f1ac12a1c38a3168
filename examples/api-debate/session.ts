/** What the three models say where there is none, and what the search finds; the rounds, the evidence and the search are real. */
import { scriptedModel } from 'dramatis/testing'
import { by } from '../lib/by.ts'
import type { FoundPage } from '../lib/recorded-search.ts'

export const PAGES: readonly FoundPage[] = [
  {
    title: "Comparing GitHub's REST API and GraphQL API",
    url: 'https://docs.github.com/en/rest/about-the-rest-api/comparing-githubs-rest-api-and-graphql-api',
    content:
      'One GraphQL query returns exactly the data that it names, where REST may take several requests. Both are there.',
  },
  {
    title: 'GraphQL: Caching',
    url: 'https://graphql.org/learn/caching/',
    content: 'In an endpoint-based API clients use HTTP caching by URL. GraphQL has no such identifier for an object.',
  },
  {
    title: 'GraphQL: Schema design',
    url: 'https://graphql.org/learn/schema-design/',
    content:
      'Because GraphQL only returns the data that is requested, new capabilities come without a breaking change.',
  },
  {
    title: 'GraphQL: Security',
    url: 'https://graphql.org/learn/security/',
    content: 'Servers need demand control: limits of depth, breadth and batches, as one query can ask for very much.',
  },
]

const [github, caching, design, security] = PAGES.map(({ url }) => url)

const searches = (query: string) => ({ toolCall: { name: 'web_search', input: { query } } })
const argues = (argument: string, ...evidence: (string | undefined)[]) => ({ reply: { argument, evidence } })

const REASONS =
  'The critic named a cost that stays (caching by URL, demand control), with sources; that both can stand side by side went unanswered.'

export const playedModel = () =>
  scriptedModel([
    ...by(
      'advocate',
      searches('GraphQL exactly the data'),
      {
        when: /several requests/,
        ...argues(
          'Our app makes five calls for its home screen. With GraphQL it makes one, for the fields it shows.',
          github,
        ),
      },
      searches('new capabilities breaking change'),
      {
        when: /breaking change/,
        ...argues(
          'Caches can be added. What REST never loses is its versions: a GraphQL schema grows without any.',
          design,
        ),
      },
      argues(
        'Limits are set once, on the server. The calls that a screen makes are paid for on every phone, every day.',
        github,
      ),
    ),
    ...by(
      'critic',
      searches('HTTP caching URL'),
      {
        when: /caching by URL/,
        ...argues('Our product pages come from a cache by URL nine times of ten. GraphQL gives that up.', caching),
      },
      argues('One query can bring the database down.'), // without evidence: it is sent back
      searches('demand control limits'),
      {
        when: /demand control/,
        ...argues('One query can ask for very much, so the server needs limits of depth and breadth first.', security),
      },
      argues('GitHub keeps both. So can we: a GraphQL endpoint for the app, and REST for all that is cached.', github),
    ),
    ...by(
      'judge',
      { reply: { winner: 'critic', reasons: REASONS } },
      {
        when: /critic has won/,
        reply:
          'No, do not migrate: add a GraphQL endpoint for the app, with limits of depth, and keep REST for what is cached by URL. What speaks against it: two interfaces have to be kept up.',
      },
    ),
  ])
