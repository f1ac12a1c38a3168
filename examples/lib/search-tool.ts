/** `web_search` as the examples have it: an instance of SearXNG where there is one, else a service that takes a key. */
import { webSearch } from 'dramatis/tools'

/**
 * `origin`: the recorded search of a session that is played, or an instance with `json` among its `search.formats`. `apiKeyEnv`:
 * the variable with the key of Brave Search.
 */
export const searchTool = (origin: string | undefined, apiKeyEnv = 'SEARCH_KEY') =>
  origin ? webSearch({ provider: 'searxng', baseURL: origin }) : webSearch({ apiKeyEnv })
