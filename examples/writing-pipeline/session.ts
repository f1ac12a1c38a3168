/** What the three models say where there is none, and what the search finds; the search, the files and their way are real. */
import { scriptedModel } from 'dramatis/testing'
import { by } from '../lib/by.ts'
import type { FoundPage } from '../lib/recorded-search.ts'

export const PAGES: readonly FoundPage[] = [
  {
    title: 'Compose file reference',
    url: 'https://docs.docker.com/reference/compose-file/',
    content:
      'A Compose file defines services, networks, volumes, configs and secrets. The default path is compose.yaml.',
  },
  {
    title: 'How Compose works',
    url: 'https://docs.docker.com/compose/intro/compose-application-model/',
    content:
      'docker compose up starts all services that are defined in the file; docker compose down stops and removes them.',
  },
]

const NOTES = `- A Compose file, compose.yaml by default, defines services, networks and volumes (Compose file reference).
- "docker compose up" starts the services, "docker compose down" stops and removes them (How Compose works).`

const DRAFT = `# Docker Compose

Write down your services in docker-compose.yml and start them with "docker compose up".
`

const GUIDE = `# Docker Compose

1. Write down your services in \`compose.yaml\`.
2. Start them: \`docker compose up\`.
3. Stop and remove them: \`docker compose down\`.
`

const guide = 'guide.md'

export const playedModel = () =>
  scriptedModel([
    ...by(
      'researcher',
      { toolCall: { name: 'web_search', input: { query: 'docker compose' } } },
      { when: /compose\.yaml/, reply: NOTES },
    ),
    ...by(
      'writer',
      { when: /compose\.yaml/, toolCall: { name: 'write_file', input: { path: guide, content: DRAFT } } },
      { reply: 'The draft is in guide.md.' },
    ),
    ...by(
      'editor',
      { when: /The draft is in guide\.md/, toolCall: { name: 'read_file', input: { path: guide } } },
      { when: /docker-compose\.yml/, toolCall: { name: 'write_file', input: { path: guide, content: GUIDE } } },
      { reply: 'guide.md has steps now, with the file name of today, and says how to stop.' },
    ),
  ])
