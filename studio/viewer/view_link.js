// Choices of a drawing that the server need not know, in the address of the page: those that differ from the usual ones.
// Their keys begin with the component's name on the page; studio/view_link.py lists them.

const VIEW_MOMENT = 200; // ms without a change before the address is written
const viewKey = (name) => `${(element.parentElement?.closest('[id]')?.id ?? '').replace('-', '.')}.${name}`;
let viewing;

// The choices that the address names. `choices` tells for each name which texts there are, the usual one first.
function viewOf(choices) {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(Object.entries(choices).map(([name, texts]) => {
    const text = given.get(viewKey(name));
    return [name, texts.includes(text) ? text : texts[0]];
  }));
}

function keepView(choices, now) {
  clearTimeout(viewing);
  viewing = setTimeout(() => {
    const address = new URL(location.href);
    for (const [name, [usual]] of Object.entries(choices)) {
      if (String(now[name]) === usual) address.searchParams.delete(viewKey(name));
      else address.searchParams.set(viewKey(name), now[name]);
    }
    history.replaceState(history.state, '', address);
  }, VIEW_MOMENT);
}

const wholeTo = (last) => [...Array(last + 1).keys()].map(String);
