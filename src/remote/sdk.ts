/** The protocol's own package: an optional peer, so that only who has such a role has to install it. */
import { ConfigurationError, describe } from '../shared/errors.ts'

const NAME = '@agentclientprotocol/sdk'

/** Rejects with `ConfigurationError` where it is not installed. `who`: what needs it. */
export async function sdk(who: string) {
  try {
    return await import('@agentclientprotocol/sdk')
  } catch (error) {
    const text = `${who} needs the package ${NAME}: npm install ${NAME} (${describe(error)}).`
    throw new ConfigurationError(text, { path: NAME }, error)
  }
}
