// What became of bringing a model: a line while it loads, and for each model that came what was recognised.
const add = (parent, tag, text, name) => {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  parent.append(made);
  return made;
};
const show = () => {
  const value = props.value || {};
  const said = element.querySelector('.said');
  said.textContent = value.said || '';
  const before = said.className;
  said.className = 'said ' + (value.state || '');
  // It stands below the button, where the side of the page may have to be scrolled; who went elsewhere is left there.
  const here = document.getElementById('bring')?.contains(document.activeElement);
  if (value.said && here && said.className !== before) said.scrollIntoView({ block: 'nearest' });
  const models = value.models || [];
  const list = element.querySelector('.models');
  const key = JSON.stringify(models);
  if (list.dataset.shown === key) return;
  list.dataset.shown = key;
  list.replaceChildren(...models.map((model, index) => {
    const folded = document.createElement('details');
    folded.open = index === 0;
    add(folded, 'summary', model.title);
    const facts = add(folded, 'dl', '');
    JSON.parse(model.rows).forEach(([label, text]) => {
      add(facts, 'dt', label);
      add(facts, 'dd', text, label);
    });
    return folded;
  }));
};
watch('value', show);
show();
